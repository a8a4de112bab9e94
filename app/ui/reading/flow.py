"""Rows laid out for a width: which screen line is which row."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from itertools import islice, takewhile

from app.ui.reading.rows import Line, Row

_MOST_KEPT = 2_000


class Flow:
    """Where every row stands. Adding rows costs what they cost; the rows before them are not looked at.

    Attributes:
        rows: All of them, first one on top.
        alike: Screen lines at the beginning of the first replaced row that look as before, as far as that is known.
    """

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.alike = 0
        self._ends = array("q")
        self._width = 0
        self._lines: dict[int, list[Line]] = {}

    def replace(self, start: int, rows: Sequence[Row]) -> int:
        """Put rows in place of all from the one numbered `start` on; those that look as before stay.

        Returns:
            The number of the first one that does not.
        """
        same = 0
        for old, new in zip(islice(self.rows, start, None), rows, strict=False):
            if not old.looks_like(new):
                break
            same += 1
        start += same
        before = self._lines.get(start, [])
        for number in range(start, len(self.rows)):
            self._lines.pop(number, None)
        self.rows[start:] = rows[same:]
        del self._ends[start:]
        self.alike = 0
        # A paragraph that grows is another row each time, and its last lines alone look different.
        if before and start < len(self.rows):
            now = self._lines[start] = list(self.rows[start].lines(self._width))
            self.alike = sum(1 for _ in takewhile(_look_alike, zip(before, now, strict=False)))
        return start

    def top(self, number: int) -> int:
        """The screen line that a row begins at, at the width last asked for."""
        return self._ends[number - 1] if number else 0

    def height(self, width: int) -> int:
        """Screen lines of everything at a width in cells."""
        if width != self._width:
            self._width = width
            self._lines.clear()
            del self._ends[:]
        end = self._ends[-1] if self._ends else 0
        for number in range(len(self._ends), len(self.rows)):
            lines = self._lines.get(number)
            end += len(lines) if lines is not None else self.rows[number].height(width)
            self._ends.append(end)
        return end

    def at(self, y: int) -> tuple[int, Line] | None:
        """The row that a screen line belongs to, by number, and the line; None below the last."""
        number = bisect_right(self._ends, y)
        if number >= len(self._ends):
            return None
        lines = self._lines.get(number)
        if lines is None:
            if len(self._lines) >= _MOST_KEPT:
                self._lines.clear()
            lines = self._lines[number] = list(self.rows[number].lines(self._width))
        return number, lines[min(y - self.top(number), len(lines) - 1)]


def _look_alike(lines: tuple[Line, Line]) -> bool:
    """Whether two screen lines look the same, and are the same places of their rows."""
    old, new = lines
    return len(old) == len(new) and all(
        x == other_x and content.is_same(other) for (x, content), (other_x, other) in zip(old, new, strict=True)
    )
