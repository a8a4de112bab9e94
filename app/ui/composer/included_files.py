"""`@path` in a prompt: the file it names, and the message with it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.conversations.attached import Attachment, compose, file_reference
from app.core.errors import AppError
from app.core.regular_file import FolderNamed, MissingFile, read_user_text, text_size
from app.models.source import home_expanded

# After a space, a bracket or a quotation mark: an address such as me@example.org names no file.
_REFERENCE_START = r"""(?<![^\s('"])@"""
_FILE_REFERENCE = re.compile(rf"""{_REFERENCE_START}(?:"(?P<quoted>(?:[^"\n]|"")*)"?|(?P<bare>[^\s"@][^\s"]*))""")
_OPEN_REFERENCE = re.compile(rf"""{_REFERENCE_START}(?:"(?P<quoted>(?:[^"\n]|"")*)|(?P<bare>(?:[^\s"@][^\s"]*)?))\Z""")
"""A reference that is not closed yet."""
_SENTENCE_PUNCTUATION = ".,;:!?)]}'"
"""Ends a sentence around a path rather than the path."""
_CERTAIN_PATH = re.compile(
    r"[/\\~]|\.(?:c|cc|cfg|cpp|cs|css|csv|go|h|hpp|html|ini|java|js|json|jsonl|log|md|php|py|rb|rs|rst|sh|sql|tex|toml"
    r"|ts|tsx|txt|xml|ya?ml)$",
    re.IGNORECASE,
)
"""What can only be a path: a separator, or the ending of a text file."""
_AS_TEXT = "A space after the @ makes it text."


@dataclass(frozen=True, slots=True)
class Reference:
    """One `@path`; `path` is without the quotes around it."""

    path: str
    quoted: bool = False

    @property
    def readings(self) -> tuple[str, ...]:
        """The possible paths, most likely first: punctuation may end the path, or the sentence."""
        trimmed = self.path.rstrip(_SENTENCE_PUNCTUATION)
        return (self.path,) if self.quoted or trimmed in ("", self.path) else (self.path, trimmed)

    @property
    def must_exist(self) -> bool:
        """Return whether it can only mean a file; `@property` may be just text."""
        return self.quoted or bool(_CERTAIN_PATH.search(self.readings[-1]))


def references(text: str) -> Iterator[Reference]:
    """Yield every `@path`, in order."""
    for found in _FILE_REFERENCE.finditer(text):
        if path := _path(found):
            yield Reference(path, found["bare"] is None)


def reference_at(text: str, cursor: int) -> tuple[int, str] | None:
    """Return the start and the path of the `@path` that is being typed before a cursor, perhaps still empty."""
    found = _OPEN_REFERENCE.search(text[:cursor])
    return (found.start(), _path(found)) if found is not None else None


def completed(path: str) -> str:
    """Return a chosen path as it is inserted; a folder stays open for the rest."""
    written = file_reference(path)
    return written.rstrip('"') if path.endswith("/") else written + " "


def _path(found: re.Match[str]) -> str:
    bare: str | None = found["bare"]
    return str(found["quoted"]).replace('""', '"') if bare is None else bare


def include_files(question: str, pastes: Sequence[Attachment], base: Path) -> str:
    """Return the message for a typed question, with its files and pastes in front; relative paths start from `base`.

    Raises:
        AppError: A file cannot be included, or a path that can only mean a file names none.
    """
    files = dict(filter(None, (find_file(reference, base) for reference in references(question))))
    attachments = [Attachment(name, read_user_text(path, name)) for name, path in files.items()]
    return compose(question, [*attachments, *pastes])


def find_file(reference: Reference, base: Path) -> tuple[str, Path] | None:
    """Return the name and path of the file that is meant; None for text. Raises as `include_files`."""
    for name in reference.readings:
        try:
            path = base / home_expanded(name)
            text_size(path, name)
        except MissingFile:
            continue
        except ValueError:
            # The home folder of a user name that no system can have.
            continue
        except AppError as error:
            if reference.must_exist or isinstance(error, FolderNamed):
                raise AppError(error.message, f"{error.hint} {_AS_TEXT}".lstrip()) from error
            return None
        return name, path
    if reference.must_exist:
        raise MissingFile(f"There is no file {reference.readings[-1]}.", _AS_TEXT)
    return None
