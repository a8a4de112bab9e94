"""The line under the prompt: the files and pastes it includes, and their share of the context."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from textual.content import Content
from textual.widgets import Static

from app.conversations.attached import Attachment, compose
from app.conversations.textfile import FolderNamed, MissingFile, marked_encoding, read_text
from app.conversations.token_estimate import estimated_tokens, in_tokens
from app.core.errors import AppError
from app.core.printable import printable
from app.models.pair_info import PairInfo
from app.ui.background import in_thread, run_latest
from app.ui.composer.included_files import IncludedFile, find_file, references
from app.ui.text import size, tokens

_MOST_NAMED = 3
"""Files and pastes that are named one by one."""
_MOST_READ = 1 << 18
"""Bytes that are read and counted while the user types: about a tenth of a second's work."""


@dataclass(frozen=True, slots=True)
class Inclusion:
    """The files and pastes of a prompt.

    Attributes:
        names: Their names with sizes.
        text: All of it, as the model reads it; "" if it is too long to be counted while the user types.
        estimate: Estimated tokens.
        problems: Why some files cannot be included, in sentences without a full stop.
    """

    names: str = ""
    text: str = ""
    estimate: int = 0
    problems: tuple[str, ...] = ()

    def line(self, n_ctx: int | None, counted: int | None = None) -> str:
        """Return one line for the screen; "" for nothing.

        Args:
            n_ctx: Tokens that the context holds, if that is known.
            counted: Exact tokens, if they were counted.
        """
        found = ""
        if self.names:
            count = self.estimate if counted is None else counted
            found = f"{self.names}, {in_tokens(count, exact=counted is not None)}"
            if n_ctx and count > n_ctx:
                found += f"; the context holds {tokens(n_ctx)}"
            elif n_ctx:
                found += f"; {count / n_ctx * 100:.0f}% of the context"
        return ". ".join(filter(None, [found, *self.problems]))


def inclusion_of(question: str, pastes: Sequence[Attachment], base: Path) -> Inclusion:
    """Return what a question would include. Reads short files, and the beginning of long ones.

    Args:
        question: As typed, perhaps not yet to its end.
        pastes: What was pasted into it.
        base: What relative paths start from.
    """
    files: dict[str, tuple[IncludedFile, str]] = {}
    problems = []
    for reference in references(question):
        try:
            file = find_file(reference, base)
            if file is not None and file.name not in files:
                files[file.name] = file, _text(file, file.path.stat().st_mtime_ns)
        except (MissingFile, FolderNamed) as error:
            # Half a path that is being typed is no mistake.
            if reference.end < len(question):
                problems.append(error.message.rstrip("."))
        except AppError as error:
            problems.append(error.message.rstrip("."))
        except OSError:
            # It was removed meanwhile; the next key finds it missing.
            continue
    names = [f"{file.path.name} {size(file.bytes)}" for file, _ in files.values()] + [paste.name for paste in pastes]
    n_bytes = sum(file.bytes for file, _ in files.values()) + sum(paste.size for paste in pastes)
    if len(names) > _MOST_NAMED:
        kinds = " and ".join(kind for kind, some in (("files", files), ("pastes", pastes)) if some)
        names = [f"{len(names)} {kinds}, {size(n_bytes)}"]
    text = compose("", [*(Attachment(file.name, read) for file, read in files.values()), *pastes])
    is_whole = n_bytes <= _MOST_READ
    n_read = sum(min(file.bytes, _MOST_READ) for file, _ in files.values()) + sum(paste.size for paste in pastes)
    estimate = _estimated(text) * n_bytes // max(1, n_read) if not is_whole else _estimated(text)
    return Inclusion(", ".join(names), text if is_whole else "", estimate, tuple(dict.fromkeys(problems)))


@lru_cache(maxsize=16)
def _text(file: IncludedFile, changed_ns: int) -> str:
    """Return the text of a file, of a long one only the beginning; cached, as every key press asks for it."""
    if file.bytes <= _MOST_READ:
        return read_text(file.path, file.name).text
    with file.path.open("rb") as stream:
        head = stream.read(_MOST_READ)
    return head.decode(marked_encoding(head) or "utf-8", "replace")


@lru_cache(maxsize=4)
def _estimated(text: str) -> int:
    return estimated_tokens(text)


class IncludedLine(Static):
    """Show the line; it takes a row only while there is something to say."""

    def __init__(self) -> None:
        super().__init__()
        self._shown = ""
        self._inclusion = Inclusion()
        self._pair: PairInfo | None = None
        self._counts: dict[str, int] = {}
        """Exact tokens of the last text with this pair."""
        self.count: Callable[[str], object] = lambda text: None
        """Called with a text whose tokens are estimated; `counted` may follow."""
        self.display = False

    def look(self, question: str, pastes: Sequence[Attachment], pair: PairInfo | None) -> None:
        """Show what a prompt includes, once the disk has answered.

        Args:
            question: As typed.
            pastes: What was pasted into it.
            pair: The loaded pair, or None.
        """
        if pair is not self._pair:
            self._pair, self._counts = pair, {}

        async def look() -> None:
            self._inclusion = await in_thread(lambda: inclusion_of(question, pastes, Path()))
            self._update_line()
            if (text := self._inclusion.text) and text not in self._counts:
                self.count(text)

        if "@" in question or pastes:
            run_latest(self, look, "included")
        else:
            self.workers.cancel_group(self, "included")
            self._inclusion = Inclusion()
            self._update_line()

    def counted(self, text: str, pair: PairInfo, count: int) -> None:
        """Show the exact tokens of a text."""
        if pair is self._pair:
            self._counts = {text: count}
            self._update_line()

    def _update_line(self) -> None:
        n_ctx = self._pair.n_ctx if self._pair is not None else None
        line = self._inclusion.line(n_ctx, self._counts.get(self._inclusion.text))
        if line != self._shown:
            self._shown = line
            self.display = bool(line)
            self.update(Content(printable(line)))
