"""`@path` in a prompt: the file it names, the line that lists included files, and the message with them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from textual.content import Content
from textual.widgets import Static

from app.conversations.attached import Attachment, compose, file_reference
from app.conversations.textfile import FolderNamed, MissingFile, read_text, text_size
from app.core.errors import AppError
from app.core.printable import printable
from app.models.pair_info import PairInfo
from app.models.source import home_expanded
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


# After a space, a bracket or a quotation mark: an address such as me@example.org names no file.
_REFERENCE = re.compile(r"""(?<![^\s('"])@(?:"(?P<quoted>(?:[^"\n]|"")*)(?P<closed>"?)|(?P<bare>[^\s"@][^\s"]*))""")
_PUNCTUATION = ".,;:!?)]}'"
"""Ends a sentence around a path rather than the path."""
_SEPARATORS = re.compile(r"[/\\~]")
_TEXT_SUFFIX = re.compile(
    r"\.(?:c|cc|cfg|cpp|cs|css|csv|go|h|hpp|html|ini|java|js|json|jsonl|log|md|php|py|rb|rs|rst|sh|sql|tex|toml|ts|tsx"
    r"|txt|xml|ya?ml)$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Reference:
    """One `@path` between two positions; `path` is without the quotes around it."""

    start: int
    end: int
    path: str
    quoted: bool = False

    @property
    def readings(self) -> tuple[str, ...]:
        """The possible paths, most likely first: punctuation may end the path, or the sentence."""
        trimmed = self.path.rstrip(_PUNCTUATION)
        return (self.path,) if self.quoted or trimmed in ("", self.path) else (self.path, trimmed)

    @property
    def must_exist(self) -> bool:
        """Return whether it can only mean a file; `@property` may be just text."""
        path = self.readings[-1]
        return self.quoted or bool(_SEPARATORS.search(path) or _TEXT_SUFFIX.search(path))


def references(text: str) -> Iterator[Reference]:
    """Yield every `@path`, in order."""
    for found in _REFERENCE.finditer(text):
        if path := _path(found):
            yield Reference(found.start(), found.end(), path, found["bare"] is None)


def reference_at(text: str, cursor: int) -> Reference | None:
    """Return the `@path` that is being typed before a cursor, perhaps still empty."""
    head = text[:cursor]
    for found in _REFERENCE.finditer(head):
        if found.end() == cursor and not found["closed"]:
            return Reference(found.start(), cursor, _path(found), found["bare"] is None)
    if re.search(r"""(?<![^\s('"])@$""", head):
        return Reference(cursor - 1, cursor, "")
    return None


def completed(path: str) -> str:
    """Return a chosen path as it is inserted; a folder stays open for the rest."""
    written = file_reference(path)
    return written.rstrip('"') if path.endswith("/") else written + " "


def _path(found: re.Match[str]) -> str:
    bare = found["bare"]
    return str(found["quoted"]).replace('""', '"') if bare is None else str(bare)


@dataclass(frozen=True, slots=True)
class IncludedFile:
    """A file that a prompt names; `name` is the path as it was typed."""

    name: str
    path: Path
    bytes: int


def include_files(question: str, pastes: Sequence[Attachment], base: Path, *, missing_is_text: bool = False) -> str:
    """Return the message for a question, with its files and pastes in front. Reads files.

    Args:
        question: As typed.
        pastes: What was pasted into it.
        base: What relative paths start from.
        missing_is_text: Whether a path without a file, or of a folder, is just text.

    Raises:
        MissingFile: A path that can only mean a file names none.
        FolderNamed: It names a folder.
        AppError: A file cannot be included.
    """
    files: dict[str, IncludedFile] = {}
    for reference in references(question):
        found = find_file(reference, base, missing_is_text=missing_is_text)
        if found is not None:
            files.setdefault(found.name, found)
    attachments = [Attachment(file.name, read_text(file.path, file.name)) for file in files.values()]
    return compose(question, [*attachments, *pastes])


def find_file(reference: Reference, base: Path, *, missing_is_text: bool = False) -> IncludedFile | None:
    """Return the file that is meant; None for text. Raises as `include_files`."""
    missing: MissingFile | None = None
    for name in reference.readings:
        try:
            path = base / home_expanded(name)
            return IncludedFile(name, path, text_size(path, name))
        except MissingFile as error:
            missing = error
        except ValueError:
            # The home folder of a user name that no system can have.
            missing = MissingFile(f"There is no file {name}.")
        except FolderNamed:
            if missing_is_text:
                return None
            raise
        except AppError:
            if reference.must_exist:
                raise
            return None
    if missing is None or missing_is_text or not reference.must_exist:
        return None
    raise missing
