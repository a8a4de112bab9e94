"""Lines of text before they are wrapped, and table rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from functools import lru_cache

from textual.content import Content

from app.ui.reading.wrapping import spaced, spaced_content, wrapped

NOTHING = Content("")
_GAP = 2
"""Cells between two columns of a table."""
_NARROWEST = 4
"""Cells of a column that can be read."""
_SEPARATOR = " | "

Part = tuple[int | None, Content]
"""A part of a screen line and its offset in the row's text; None for decoration, which cannot be selected."""
Line = list[Part]
"""One screen line, from left to right."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of text as it was written.

    Attributes:
        content: The text.
        first: Decoration before the first screen line.
        rest: Decoration before the other screen lines.
        joined: True for the continuation of the row above, which was too long.
        source: Text to copy; None copies the visible text.
    """

    content: Content = NOTHING
    first: Content = NOTHING
    rest: Content = NOTHING
    joined: bool = False
    source: str | None = None

    @property
    def text(self) -> str:
        """Text that a selection of the whole row copies."""
        return self.first.plain.replace("┃", ">") + self.content.plain if self.source is None else self.source

    def part(self, start: int, end: int) -> str:
        """Return the text that a selection copies, from one character to another; -1 is the end of the row."""
        shown = self.content.plain
        if self.source is not None and shown.startswith(written := spaced(self.source)):
            # Without the mark of a line end.
            shown = written
        return shown[start : None if end < 0 else end]

    def looks_like(self, other: Row) -> bool:
        """Return True if another row looks the same, and is copied as the same."""
        return (
            type(self) is type(other)
            and (self.joined, self.source) == (other.joined, other.source)
            and self.content.is_same(other.content)
            and self.first.is_same(other.first)
            and self.rest.is_same(other.rest)
        )

    def indented(self, first: Content, rest: Content) -> Row:
        """Return the row with more decoration before it."""
        return replace(self, first=first + self.first, rest=rest + self.rest)

    def height(self, width: int) -> int:
        """Return the number of screen lines at a width in cells."""
        return 1 if self._fits(width) else len(self._wrapped(width))

    def lines(self, width: int) -> Iterator[Line]:
        """Yield the screen lines at a width in cells."""
        if self._fits(width):
            yield [(None, self.first), (0, self.content)]
            return
        text, at = self.content.plain, 0
        for number, part in enumerate(self._wrapped(width)):
            yield [(None, self.rest if number else self.first), (at, part)]
            at += len(part)
            while at < len(text) and text[at].isspace():
                at += 1

    def _fits(self, width: int) -> bool:
        return self.content.cell_length + self.first.cell_length <= width

    def _wrapped(self, width: int) -> list[Content]:
        return wrapped(self.content, max(2, width - max(self.first.cell_length, self.rest.cell_length)))


def as_typed(line: Content, *, joined: bool = False) -> Row:
    """Return a row for a typed line: tabs are shown as spaces, and copied as tabs."""
    if "\t" not in line.plain:
        return Row(line, joined=joined)
    return Row(spaced_content(line), joined=joined, source=line.plain)


@dataclass(frozen=True, slots=True)
class Rule(Row):
    """A horizontal line."""

    def height(self, width: int) -> int:
        return 1

    def lines(self, width: int) -> Iterator[Line]:
        room = max(1, width - self.first.cell_length)
        yield [(None, self.first), (None, Content.styled("─" * room, "$rule"))]


@dataclass(frozen=True, slots=True)
class TableRow(Row):
    """A row of a table; `content` is a line of text, for copying and for windows too narrow for columns.

    Attributes:
        cells: One a column.
        natural: Cells of the widest text in each column.
        right: Columns that are aligned to the right.
    """

    cells: tuple[Content, ...] = ()
    natural: tuple[int, ...] = ()
    right: Set[int] = frozenset()

    def looks_like(self, other: Row) -> bool:
        return (
            isinstance(other, TableRow)
            and Row.looks_like(self, other)
            and (self.natural, self.right) == (other.natural, other.right)
        )

    def height(self, width: int) -> int:
        widths = self._widths(width)
        if widths is None:
            return Row.height(self, width)
        return max((Row(cell).height(room) for cell, room in zip(self.cells, widths, strict=False)), default=1)

    def lines(self, width: int) -> Iterator[Line]:
        widths = self._widths(width)
        if widths is None:
            yield from Row.lines(self, width)
            return
        columns: list[list[Part]] = []
        at = 0
        for cell, room in zip(self.cells, widths, strict=False):
            parts = [line[-1] for line in Row(cell).lines(room)]
            columns.append([(at + (offset or 0), part) for offset, part in parts])
            at += len(cell) + len(_SEPARATOR)
        for number in range(max(map(len, columns), default=1)):
            line: Line = [(None, self.rest if number else self.first)]
            for column, parts in enumerate(columns):
                part = parts[number] if number < len(parts) else (None, NOTHING)
                pad: Part = (None, Content(" " * max(0, widths[column] - part[1].cell_length)))
                line += [pad, part] if column in self.right else [part, pad]
                line.append((None, Content(" " * _GAP)))
            yield line[:-1]

    def _widths(self, width: int) -> tuple[int, ...] | None:
        return column_widths(self.natural, width - self.first.cell_length)


def table(
    rows: Iterable[Sequence[Content]], right: Set[int] = frozenset(), natural: tuple[int, ...] | None = None
) -> list[TableRow]:
    """Return the rows of a table with as many cells in each; `natural` are known column widths."""
    cells = [tuple(row) for row in rows]
    if natural is None:
        natural = tuple(max(cell.cell_length for cell in column) for column in zip(*cells, strict=True))
    return [TableRow(Content(_SEPARATOR).join(row), cells=row, natural=natural, right=right) for row in cells]


@lru_cache(256)
def column_widths(natural: tuple[int, ...], width: int) -> tuple[int, ...] | None:
    """Return the width of each column in so many cells, the widest being narrowed; None if they do not fit."""
    room = width - _GAP * (len(natural) - 1)
    if room < _NARROWEST * len(natural) and room < sum(natural):
        return None
    widest = max(natural, default=0)
    while sum(min(cells, widest) for cells in natural) > room:
        widest -= 1
    return tuple(min(cells, widest) for cells in natural)
