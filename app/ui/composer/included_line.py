"""The line under the prompt: the files and pastes it includes, and their share of the context."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from textual.content import Content
from textual.widgets import Static

from app.conversations.attached import Attachment
from app.conversations.textfile import FolderNamed, MissingFile
from app.core.errors import AppError
from app.core.printable import printable
from app.models.pair_info import PairInfo
from app.ui.composer.included_files import IncludedFile, find_file, references
from app.ui.text import size, tokens

_MOST_NAMED = 3
"""Files and pastes that are named one by one."""
_BYTES_PER_TOKEN = 4
"""Of English text and code."""


def included_text(question: str, pastes: Sequence[Attachment], base: Path, n_ctx: int | None) -> str:
    """Return what a question would include, as one line; "" for nothing. Reads no file.

    Args:
        question: As typed, perhaps not yet to its end.
        pastes: What was pasted into it.
        base: What relative paths start from.
        n_ctx: Tokens that the context holds, if that is known.
    """
    files: dict[str, IncludedFile] = {}
    problems = []
    for reference in references(question):
        try:
            if (file := find_file(reference, base)) is not None:
                files[file.name] = file
        except (MissingFile, FolderNamed) as error:
            # Half a path that is being typed is no mistake.
            if reference.end < len(question):
                problems.append(error.message.rstrip("."))
        except AppError as error:
            problems.append(error.message.rstrip("."))
    names = [f"{file.path.name} {size(file.bytes)}" for file in files.values()] + [paste.name for paste in pastes]
    n_bytes = sum(file.bytes for file in files.values()) + sum(paste.size for paste in pastes)
    if len(names) > _MOST_NAMED:
        names = [f"{len(names)} texts, {size(n_bytes)}"]
    found = ", ".join(names)
    if names and n_ctx:
        n_tokens = n_bytes // _BYTES_PER_TOKEN
        if n_tokens > n_ctx:
            found += f", more than the context of {tokens(n_ctx)} tokens"
        else:
            share = f"about {n_tokens / n_ctx:.0%}" if n_tokens >= n_ctx / 100 else "under 1%"
            found += f", {share} of the context"
    return ". ".join(filter(None, [found, *dict.fromkeys(problems)]))


class IncludedLine(Static):
    """Show the line; it takes a row only while there is something to say."""

    def __init__(self) -> None:
        super().__init__()
        self._shown = ""
        self.display = False

    def look(self, question: str, pastes: Sequence[Attachment], pair: PairInfo | None) -> None:
        """Show what a prompt includes, as the loaded pair's share of the context."""
        line = included_text(question, pastes, Path(), pair.n_ctx if pair is not None else None)
        if line != self._shown:
            self._shown = line
            self.display = bool(line)
            self.update(Content(printable(line)))
