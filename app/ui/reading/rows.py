"""One line of text before it is wrapped, with what stands in front of it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from textual.content import Content

from app.ui.reading.wrapping import longest_word, spaced, spaced_content, wrapped

NOTHING = Content("")
BOXES = ("☑ ", "☐ ")
"""Before what is done of a task list, and what is not."""
_COPIED = (("┃", ">"), (BOXES[0], "- [x] "), (BOXES[1], "- [ ] "))
"""What stands before a row, and what a copy has there: as it is written."""

_MARK = 2
"""Cells at the end of what stands before a line of code that goes on: they say that it does."""
_GAP = 2
"""Cells between two columns of a table."""
_READABLE = 4
"""Cells of a column that can be read: also where every character ends a word, and takes two of them."""

Part = tuple[int | None, Content]
"""A run of one screen line and its place in the row's text; None for decoration, which is never selected."""
Line = list[Part]
"""One screen line, from left to right."""


@dataclass(frozen=True, slots=True)
class Row:
    """A line of text as its writer meant it.

    Attributes:
        content: The text, without line ends.
        first: What stands before its first screen line.
        rest: What stands before the others.
        joined: Whether it continues the row above, which was only too long.
        source: What is copied; None for what is seen.
    """

    content: Content = NOTHING
    first: Content = NOTHING
    rest: Content = NOTHING
    joined: bool = False
    source: str | None = None

    @property
    def text(self) -> str:
        """Return what a selection of the whole row copies."""
        if self.source is not None:
            return self.source
        before = self.first.plain
        for shown, written in _COPIED:
            before = before.replace(shown, written)
        return before + self.content.plain

    def part(self, start: int, end: int) -> str:
        """Return what a selection of some of its characters copies: of marks for what cannot be seen none.

        Args:
            start: The first of them.
            end: Behind the last; -1 for the end of the row.
        """
        shown = self.content.plain
        if self.source is not None and shown.startswith(written := spaced(self.source)):
            shown = written
        return shown[start : None if end < 0 else end]

    def looks_like(self, other: Row) -> bool:
        """Return whether another row looks the same, and is copied as the same."""
        return (
            type(self) is type(other)
            and (self.joined, self.source) == (other.joined, other.source)
            and self.content.is_same(other.content)
            and self.first.is_same(other.first)
            and self.rest.is_same(other.rest)
        )

    def indented(self, first: Content, rest: Content) -> Row:
        """The same row with more in front of it."""
        return replace(self, first=first + self.first, rest=rest + self.rest)

    def height(self, width: int) -> int:
        """Screen lines at a width in cells."""
        if self.content.cell_length + self.first.cell_length <= width:
            return 1
        return len(self._wrapped(width))

    def lines(self, width: int) -> Iterator[Line]:
        """The screen lines at a width in cells."""
        if self.content.cell_length + self.first.cell_length <= width:
            yield [(None, self.first), (0, self.content)]
            return
        text, at = self.content.plain, 0
        for number, part in enumerate(self._wrapped(width)):
            yield [(None, self.rest if number else self.first), (at, part)]
            at += len(part)
            while at < len(text) and text[at].isspace():
                at += 1

    def _wrapped(self, width: int) -> list[Content]:
        room = width - max(self.first.cell_length, self.rest.cell_length)
        return wrapped(self.content, max(2, room))


def as_typed(line: Content, *, joined: bool = False) -> Row:
    """A line as somebody typed it: its tabs are shown as spaces, and copied as tabs.

    Args:
        line: Without its end.
        joined: Whether it continues the row above.
    """
    if "\t" not in line.plain:
        return Row(line, joined=joined)
    return Row(spaced_content(line), joined=joined, source=line.plain)


@dataclass(frozen=True, slots=True)
class CodeRow(Row):
    """A line of code; what of it goes on below stands under its beginning, behind the mark that ends `rest`."""

    def height(self, width: int) -> int:
        if self.content.cell_length + self.first.cell_length <= width:
            return 1
        return self._hanging(self._indent(width)).height(width)

    def lines(self, width: int) -> Iterator[Line]:
        indent = self._indent(width)
        if not indent or self.content.cell_length + self.first.cell_length <= width:
            yield from Row.lines(self, width)
            return
        for number, (before, (at, part)) in enumerate(self._hanging(indent).lines(width)):
            place = (at or 0) + indent
            lead: Line = [before] if number else [(None, self.first), (0, self.content[:indent])]
            yield [*lead, (place, part)]

    def _indent(self, width: int) -> int:
        """Spaces that the lines below keep from the first one; none where more than half of the room would go."""
        text = self.content.plain
        spaces = len(text) - len(text.lstrip(" "))
        return spaces if 2 * spaces <= width - self.first.cell_length else 0

    def _hanging(self, indent: int) -> Row:
        lead, at = self.content[:indent], len(self.rest) - _MARK
        return Row(self.content[indent:], self.first + lead, self.rest[:at] + lead + self.rest[at:])


@dataclass(frozen=True, slots=True)
class Rule(Row):
    """A line across."""

    def height(self, width: int) -> int:
        return 1

    def lines(self, width: int) -> Iterator[Line]:
        room = max(1, width - self.first.cell_length)
        yield [(None, self.first), (None, Content.styled("─" * room, "$rule"))]


@dataclass(slots=True)
class Columns:
    """The columns that the rows of a table share; they stay as they are once a row was drawn.

    Attributes:
        natural: The widest cell of each, in cells.
        least: The longest word of each, in cells.
    """

    natural: list[int] = field(default_factory=list)
    least: list[int] = field(default_factory=list)

    def copy(self) -> Columns:
        """Columns of their own, as wide as these."""
        return Columns(list(self.natural), list(self.least))

    def include(self, cells: list[Content]) -> None:
        """Make room for one more row."""
        more = len(cells) - len(self.natural)
        self.natural += [1] * more
        self.least += [1] * more
        for column, cell in enumerate(cells):
            self.natural[column] = max(self.natural[column], cell.cell_length)
            self.least[column] = max(self.least[column], longest_word(cell.plain))

    def fit(self, width: int) -> list[int] | None:
        """The width of each column in so many cells; None where there is no room for columns.

        The widest give first, so that narrow ones stay whole; as far as it can be, no further than their longest word,
        and none to less than can be read for the sake of another's.
        """
        count = len(self.natural)
        room = width - _GAP * (count - 1)
        if room < _READABLE * count and room < sum(self.natural):
            return None
        least = [max(low, min(high, _READABLE)) for low, high in zip(self.least, self.natural, strict=True)]
        if sum(least) > room:
            least = [1] * count

        def widths(most: int) -> list[int]:
            return [max(low, min(high, most)) for low, high in zip(least, self.natural, strict=True)]

        most = bisect_right(range(1, room + 1), room, key=lambda most: sum(widths(most)))
        found = widths(most)
        # What is over goes to the widest.
        over = room - sum(found)
        wanting = [column for column in range(count) if most == found[column] < self.natural[column]]
        for column in sorted(wanting, key=self.natural.__getitem__)[len(wanting) - over :]:
            found[column] += 1
        return found


@dataclass(frozen=True, slots=True)
class TableRow(Row):
    """A row of a table; `content` is the same as a line of text, for copying and for where columns do not fit.

    Attributes:
        cells: One a column.
        columns: Shared with the other rows.
        right: Columns that are aligned to the right.
    """

    cells: tuple[Content, ...] = ()
    columns: Columns = field(default_factory=Columns)
    right: frozenset[int] = frozenset()

    SEPARATOR = " | "

    @classmethod
    def of(cls, cells: list[Content], columns: Columns, right: frozenset[int]) -> TableRow:
        return cls(Content(cls.SEPARATOR).join(cells), cells=tuple(cells), columns=columns, right=right)

    def looks_like(self, other: Row) -> bool:
        return (
            isinstance(other, TableRow)
            and Row.looks_like(self, other)
            and (self.cells, self.columns, self.right) == (other.cells, other.columns, other.right)
        )

    def height(self, width: int) -> int:
        widths = self._widths(width)
        if widths is None:
            return Row.height(self, width)
        return max((self._cell_height(cell, room) for cell, room in zip(self.cells, widths, strict=False)), default=1)

    def lines(self, width: int) -> Iterator[Line]:
        widths = self._widths(width)
        if widths is None:
            yield from Row.lines(self, width)
            return
        columns, at = [], 0
        for cell, room in zip(self.cells, widths, strict=False):
            columns.append([line[-1] for line in Row(cell).lines(room)])
            columns[-1] = [(at + (x or 0), part) for x, part in columns[-1]]
            at += len(cell) + len(self.SEPARATOR)
        for number in range(max(map(len, columns), default=1)):
            line: Line = [(None, self.rest if number else self.first)]
            for column, parts in enumerate(columns):
                part = parts[number] if number < len(parts) else (None, NOTHING)
                blank = widths[column] - part[1].cell_length
                pad: Part = (None, Content(" " * max(0, blank)))
                line += [pad, part] if column in self.right else [part, pad]
                line.append((None, Content(" " * _GAP)))
            yield line[:-1]

    def _widths(self, width: int) -> list[int] | None:
        return self.columns.fit(width - self.first.cell_length)

    @staticmethod
    def _cell_height(cell: Content, room: int) -> int:
        return 1 if cell.cell_length <= room else len(wrapped(cell, max(2, room)))
