"""Screen lines of rows of text, laid out for the requested width."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

LineT = TypeVar("LineT")
_MOST_DRAWN = 500
"""Number of rows whose lines are stored."""


class RowLayout(Generic[LineT]):
    """Owns the first line of each row, and the drawn lines of some rows.

    Textual may draw a widget at a new width before it reports the resize. So every call names a width, and only the
    layout of the last width is stored. A drawn row always has as many lines as it was measured with.

    Args:
        height: Returns the number of lines of a row at a width.
        lines: Returns the lines of a row at a width.
    """

    def __init__(
        self,
        count: Callable[[], int],
        height: Callable[[int, int], int],
        lines: Callable[[int, int], Sequence[LineT]],
        blank: Callable[[int], LineT],
    ) -> None:
        self._count, self._height, self._drawn_lines, self._blank = count, height, lines, blank
        self._width = 0
        self._ends = array("q")
        """The line below each measured row."""
        self._drawn: dict[int, Sequence[LineT]] = {}

    def forget(self, start: int = 0) -> None:
        """Measure and draw the rows from `start` again."""
        for number in [number for number in self._drawn if number >= start]:
            del self._drawn[number]
        del self._ends[start:]

    def redraw(self) -> None:
        """Draw all rows again; their heights stay."""
        self._drawn.clear()

    def ends(self, width: int) -> Sequence[int]:
        """Return the line below each row; nothing without a width."""
        if width != self._width:
            self._width = width
            self.forget()
        if width > 0:
            end = self._ends[-1] if self._ends else 0
            for number in range(len(self._ends), self._count()):
                end += self._height(number, width)
                self._ends.append(end)
        return self._ends

    def n_lines(self, width: int) -> int:
        """Return the number of lines of all rows."""
        ends = self.ends(width)
        return ends[-1] if ends else 0

    def row_at(self, y: int, width: int) -> int:
        """Return the number of the row at a line; the number of rows for a line below them."""
        return bisect_right(self.ends(width), y)

    def top(self, number: int, width: int) -> int:
        """Return the first line of a row; 0 without a width."""
        ends = self.ends(width)
        return ends[number - 1] if number and ends else 0

    def line(self, y: int, width: int) -> LineT | None:
        """Return a line, or None below all rows."""
        return next(self.lines(y, y + 1, width), None)

    def lines(self, first: int, end: int, width: int) -> Iterator[LineT]:
        """Yield the existing lines in a range."""
        number = self.row_at(first, width)
        top = self.top(number, width)
        while first < end and number < len(self._ends):
            lines, bottom = self.draw(number), self._ends[number]
            for at in range(first - top, min(end, bottom) - top):
                yield lines[at] if at < len(lines) else self._blank(width)
            number, first, top = number + 1, bottom, bottom

    def draw(self, number: int) -> Sequence[LineT]:
        """Return the lines of a row at the width of the last call."""
        if number not in self._drawn:
            if len(self._drawn) >= _MOST_DRAWN:
                self._drawn.clear()
            self._drawn[number] = self._drawn_lines(number, self._width)
        return self._drawn[number]

    def stored(self, number: int) -> Sequence[LineT]:
        """Return the lines of a row if they are stored."""
        return self._drawn.get(number, ())
