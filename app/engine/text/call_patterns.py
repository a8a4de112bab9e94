"""Match the texts of call formats with text that is still being written."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from app.engine.text.segments import held_back

_TEXT_PIECE = re.compile(r"\s+|\$[A-Z]+|[^\s$]+")
_MAX_VARIABLE_CHARS = 200
"""Longest key or other variable part, in characters."""
_LONGEST_HEADER = 60
_NO_NAME = re.compile(r"\A\s*/|[<>(){}\[\],=]")


@dataclass(slots=True)
class UnreadText:
    """Text of an answer from which a reader removes what it has read.

    Attributes:
        is_last: Whether no more text follows.
        is_whole: Whether the model ended its answer itself, so that nothing is missing.
    """

    text: str = ""
    is_last: bool = False
    is_whole: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """The end of a matched text, and the values of its placeholders."""

    end: int
    values: Mapping[str, str] = field(default_factory=dict)


class Partial:
    """The text so far may be the beginning of a match."""


PARTIAL: Final = Partial()


class Pattern:
    """A text with placeholders; any white space, or none, matches its white space."""

    def __init__(self, text: str) -> None:
        self._pieces = _pieces(text)

    def match(self, text: str, at: int = 0, names: Collection[str] = ()) -> Found | Partial | None:
        """Match the text from a position; `names` are the values of $NAME, the longest first."""
        return self._match(text, at, names, 0, {})

    def _match(
        self, text: str, at: int, names: Collection[str], n: int, values: dict[str, str]
    ) -> Found | Partial | None:
        if n == len(self._pieces):
            return Found(at, values)
        piece, rest = self._pieces[n], text[at : at + _MAX_VARIABLE_CHARS]
        if piece.isspace():
            return self._match(text, at + len(rest) - len(rest.lstrip()), names, n + 1, values)
        if not rest:
            return PARTIAL
        if piece == "$NAME":
            found: Found | Partial | None = None
            for name in names:
                if rest.startswith(name):
                    found = found or self._match(text, at + len(name), names, n + 1, {**values, piece: name})
                elif name.startswith(rest):
                    return PARTIAL
            return found
        if piece.startswith("$"):
            return self._variable(text, at, names, n, values)
        if rest.startswith(piece):
            return self._match(text, at + len(piece), names, n + 1, values)
        return PARTIAL if piece.startswith(rest) else None

    def _variable(
        self, text: str, at: int, names: Collection[str], n: int, values: dict[str, str]
    ) -> Found | Partial | None:
        """Match a placeholder that ends where the next piece begins."""
        piece = self._pieces[n]
        after = "{" if piece == "$HEADER" else self._pieces[n + 1]
        longest = _LONGEST_HEADER if piece == "$HEADER" else _MAX_VARIABLE_CHARS
        stop = text.find(after, at, at + longest + len(after))
        value = text[at:stop] if stop >= 0 else text[at : len(text) - held_back(text[at:], (after,))]
        if "\n" in value or len(value) > longest or (piece != "$HEADER" and _NO_NAME.search(value)):
            return None
        if stop < 0:
            return PARTIAL
        return self._match(text, stop, names, n + 1, {**values, piece: value.strip()})


def as_regex(text: str) -> str:
    """Convert a text with placeholders to a regular expression."""
    pieces = (r"\s*" if one.isspace() else r"[^\n<>{}]+?" if one[0] == "$" else re.escape(one) for one in _pieces(text))
    return "".join(pieces)


@lru_cache(maxsize=512)
def _pieces(text: str) -> list[str]:
    return _TEXT_PIECE.findall(text)
