"""`@path` in a prompt: where it stands, which file it names, and the message with that file in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.conversations.attached import Attachment, compose, file_reference
from app.conversations.textfile import FolderNamed, MissingFile, read_text, text_size
from app.core.errors import AppError
from app.models.source import home_expanded

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
    attachments = [Attachment(file.name, read_text(file.path, file.name).text) for file in files.values()]
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
