"""`@path` in a prompt: where it stands, and what a cursor in it completes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from app.conversations.attached import file_reference

# After a space, a bracket or a quotation mark: an address such as me@example.org names no file.
_REFERENCE = re.compile(r"""(?<![^\s('"])@(?:"(?P<quoted>(?:[^"\n]|"")*)(?P<closed>"?)|(?P<bare>[^\s"@][^\s"]*))""")
_AFTER = ".,;:!?)]}'"
"""What ends a sentence around a path rather than the path."""
_SEPARATORS = re.compile(r"[/\\~]")
_TEXT_SUFFIX = re.compile(
    r"\.(?:c|cc|cfg|cpp|cs|css|csv|go|h|hpp|html|ini|java|js|json|jsonl|log|md|php|py|rb|rs|rst|sh|sql|tex|toml|ts|tsx"
    r"|txt|xml|ya?ml)$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Reference:
    """One `@path`.

    Attributes:
        start: Of the `@`.
        end: After its last character.
        path: As typed, without quotes around it; one in it is typed twice.
        quoted: Whether it is in quotes.
    """

    start: int
    end: int
    path: str
    quoted: bool = False

    @property
    def readings(self) -> tuple[str, ...]:
        """What the path may be, most likely first: a full stop may end it, or the sentence."""
        trimmed = self.path.rstrip(_AFTER)
        return (self.path,) if self.quoted or trimmed in ("", self.path) else (self.path, trimmed)

    @property
    def must_exist(self) -> bool:
        """Whether it can only be meant as a file; `@property` may be just text."""
        path = self.readings[-1]
        return self.quoted or bool(_SEPARATORS.search(path) or _TEXT_SUFFIX.search(path))


def references(text: str) -> Iterator[Reference]:
    """Every `@path`, in order."""
    for found in _REFERENCE.finditer(text):
        path = _path(found)
        if path:
            yield Reference(found.start(), found.end(), path, found["bare"] is None)


def _path(found: re.Match[str]) -> str:
    bare = found["bare"]
    return str(found["quoted"]).replace('""', '"') if bare is None else str(bare)


def reference_at(text: str, cursor: int) -> Reference | None:
    """What is being typed before a cursor: an `@path` that ends there, perhaps still empty."""
    head = text[:cursor]
    for found in _REFERENCE.finditer(head):
        if found.end() == cursor and not found["closed"]:
            return Reference(found.start(), cursor, _path(found), found["bare"] is None)
    if re.search(r"""(?<![^\s('"])@$""", head):
        return Reference(cursor - 1, cursor, "")
    return None


def completed(path: str) -> str:
    """A chosen path as it is put in; one of a folder stays open for the rest."""
    written = file_reference(path)
    if path.endswith("/"):
        return written.rstrip('"')
    return written + " "
