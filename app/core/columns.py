"""Text in terminal columns: widths, truncation and tables."""

import re
import unicodedata
from collections.abc import Sequence

from app.core.printable import printable

_ELLIPSIS = "…"
_CLAUSE_ENDS = (re.compile("[;:] "), re.compile(", "))
"""Clause ends, from the largest unit to the smallest."""


def width(text: str) -> int:
    """Return the terminal columns of a line."""
    return sum(map(_columns, text))


def fit(text: str, columns: int) -> str:
    """Truncate a text between words, with an ellipsis, if it is wider than `columns`."""
    if not text or width(text) <= columns:
        return text
    used, end = 0, 0
    for end, character in enumerate(text):  # noqa: B007 - where the loop stops is the result
        used += _columns(character)
        if used > columns - 1:
            break
    head = text[:end]
    at_word, _, _ = head.rpartition(" ")
    # Long words and scripts without spaces are cut anywhere.
    if not text[end].isspace() and width(at_word) * 2 > columns:
        head = at_word
    return head.rstrip(" ,.;:-") + _ELLIPSIS


def in_brief(text: str, columns: int) -> str:
    """Return as many clauses as fit, or the whole text if none does."""
    ends = (each.start() for clause in _CLAUSE_ENDS for each in reversed(list(clause.finditer(text))))
    return next((text[:end] for end in (len(text), *ends) if width(text[:end]) <= columns), text)


def text_table(cells: Sequence[Sequence[str]], left: int) -> list[str]:
    """Return lines with aligned columns; the first `left` columns are left-aligned."""
    shown = [list(map(printable, row)) for row in cells]
    rooms = [max(map(width, column)) for column in zip(*shown, strict=True)]
    lines = []
    for row in shown:
        gaps = [" " * (room - width(cell)) for cell, room in zip(row, rooms, strict=True)]
        padded = (cell + gap if at < left else gap + cell for at, (cell, gap) in enumerate(zip(row, gaps, strict=True)))
        lines.append("  ".join(padded).rstrip())
    return lines


def _columns(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
