"""Lines of text before they are wrapped, table rows, and how they wrap."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from functools import cache, lru_cache

from rich.cells import cell_len, split_graphemes
from textual.content import Content
from textual.expand_tabs import expand_tabs_inline

_TAB_CELLS = 8
"""Cells between two tab stops."""
_UNSPACED_SCRIPTS = "\u2e80-\u312f\u3190-\ua4cf\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef\U00020000-\U0003fffd"
"""Scripts written without spaces, and their punctuation. Korean has spaces."""
_NOT_FIRST = "\u3001\u3002\u30fb\u30fc\u300d\u300f\u3011\u3015\u300b\u3009\uff0c\uff0e\uff01\uff1f\uff1a\uff1b\uff09"
"""Punctuation that does not begin a line."""
_NOT_LAST = "\u300c\u300e\u3010\u3014\u300a\u3008\uff08"
"""Brackets that do not end a line."""
_UNBREAKABLE_PIECE = rf"[{_NOT_LAST}]*(?:[{_UNSPACED_SCRIPTS}]|[^\s{_UNSPACED_SCRIPTS}]+)[{_NOT_FIRST}]*\s*|\s+"
"""A wide character or a word, with the punctuation and spaces that stay with it."""
_compiled = cache(re.compile)
"""Compiles on first use, because these ranges take 7 ms."""


def spaced(line: str) -> str:
    """Return a line with spaces in place of tabs."""
    return expand_tabs_inline(line, _TAB_CELLS) if "\t" in line else line


def spaced_content(line: Content) -> Content:
    """Return a styled line with spaces in place of tabs."""
    # Without spans, Textual counts characters instead of cells.
    return line.expand_tabs(_TAB_CELLS) if line.spans else Content(spaced(line.plain))


_latest: tuple[Content, int, list[Content]] = (Content(""), 0, [])
"""The last wrapped line: it is measured, then drawn."""


def wrapped(content: Content, width: int) -> list[Content]:
    """Return a line wrapped to a width in cells, without spaces at line ends."""
    global _latest
    known, at_width, lines = _latest
    if known is not content or at_width != width:
        lines = _wrapped(content, width)
        _latest = content, width, lines
    return lines


def _wrapped(content: Content, width: int) -> list[Content]:
    text = content.plain
    if text.isascii() or _compiled(f"[{_UNSPACED_SCRIPTS}]").search(text) is None:
        return content.wrap(width)
    return [line.rstrip() for line in content.divide(list(_line_starts(text, width)))]


def _line_starts(text: str, width: int) -> Iterator[int]:
    used = 0
    for piece in _compiled(_UNBREAKABLE_PIECE).finditer(text):
        word = piece[0].rstrip()
        needed = cell_len(word)
        if used and used + needed > width:
            yield piece.start()
            used = 0
        if needed <= width:
            used += cell_len(piece[0])
            continue
        for start, end, _ in split_graphemes(word)[0]:
            cells = cell_len(word[start:end])
            if used + cells > width:
                yield piece.start() + start
                used = 0
            used += cells


NOTHING = Content("")
_MATCH_STYLE = "bold $background on $foreground"
"""Style of search matches."""
_GAP_CELLS = 2
"""Cells between two columns of a table."""
_MIN_COLUMN_CELLS = 4
"""Smallest legible width of a column."""
_COLUMN_SEPARATOR = " | "

Part = tuple[int | None, Content]
"""A part of a screen line and its offset in the row's text; None for decoration, which cannot be selected."""
Line = list[Part]
"""A screen line, from left to right."""


@dataclass(frozen=True, slots=True)
class Row:
    """A line of text as written.

    Attributes:
        first: Decoration before the first screen line.
        rest: Decoration before the other screen lines.
        joined: Whether it continues the row above, which was too long.
        source: Text to copy; None copies the visible text.
    """

    content: Content = NOTHING
    first: Content = NOTHING
    rest: Content = NOTHING
    joined: bool = False
    source: str | None = None

    @property
    def text(self) -> str:
        """Return the text that a selection of the whole row copies."""
        return self.first.plain.replace("┃", ">") + self.content.plain if self.source is None else self.source

    def part(self, start: int, end: int) -> str:
        """Return the text that a selection copies, from one character to another; -1 is the end of the row."""
        shown = self.content.plain
        if self.source is not None and shown.startswith(written := spaced(self.source)):
            # The mark of a line end is not copied.
            shown = written
        return shown[start : None if end < 0 else end]

    def looks_like(self, other: Row) -> bool:
        """Return whether another row looks the same and is copied as the same text."""
        return (
            type(self) is type(other)
            and (self.joined, self.source) == (other.joined, other.source)
            and self.content.is_same(other.content)
            and self.first.is_same(other.first)
            and self.rest.is_same(other.rest)
        )

    def highlighted(self, words: re.Pattern[str]) -> Row:
        """Return the row with every match marked; the same row if there is none."""
        content = highlighted(self.content, words)
        return self if content is self.content else replace(self, content=content)

    def stylized(self, style: str, start: int, end: int) -> Row:
        """Return the row with a part of its text in another style."""
        return replace(self, content=self.content.stylize(style, start, end))

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


def highlighted(content: Content, words: re.Pattern[str]) -> Content:
    """Return a text with every match marked; the same object if there is none."""
    for found in words.finditer(content.plain):
        content = content.stylize(_MATCH_STYLE, *found.span())
    return content


def as_typed(line: Content, *, joined: bool = False) -> Row:
    """Return a row for a typed line: tabs are shown as spaces, and copied as tabs."""
    if "\t" not in line.plain:
        return Row(line, joined=joined)
    return Row(spaced_content(line), joined=joined, source=line.plain)


@dataclass(frozen=True, slots=True)
class BriefRow(Row):
    """A row that is cut at the end of the line."""

    def height(self, width: int) -> int:
        return 1

    def lines(self, width: int) -> Iterator[Line]:
        room = max(1, width - self.first.cell_length)
        yield [(None, self.first), (0, self.content.truncate(room, ellipsis=True))]


@dataclass(frozen=True, slots=True)
class CodeStart(Row):
    """The first line of a code block, with a label at the right edge if there is room."""

    label: Content = NOTHING

    def looks_like(self, other: Row) -> bool:
        return isinstance(other, CodeStart) and Row.looks_like(self, other) and self.label.is_same(other.label)

    def lines(self, width: int) -> Iterator[Line]:
        first, *rest = Row.lines(self, width)
        gap = width - sum(part.cell_length for _, part in first) - self.label.cell_length
        if gap > 0:
            first += [(None, Content(" " * gap)), (None, self.label)]
        yield first
        yield from rest


@dataclass(frozen=True, slots=True)
class HorizontalRule(Row):
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
        natural: Width of the widest text in each column.
    """

    cells: tuple[Content, ...] = ()
    natural: tuple[int, ...] = ()
    right: Set[int] = frozenset()

    def highlighted(self, words: re.Pattern[str]) -> Row:
        cells = tuple(highlighted(cell, words) for cell in self.cells)
        return replace(self, content=highlighted(self.content, words), cells=cells)

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
            at += len(cell) + len(_COLUMN_SEPARATOR)
        for number in range(max(map(len, columns), default=1)):
            line: Line = [(None, self.rest if number else self.first)]
            for column, parts in enumerate(columns):
                part = parts[number] if number < len(parts) else (None, NOTHING)
                pad: Part = (None, Content(" " * max(0, widths[column] - part[1].cell_length)))
                line += [pad, part] if column in self.right else [part, pad]
                line.append((None, Content(" " * _GAP_CELLS)))
            yield line[:-1]

    def _widths(self, width: int) -> tuple[int, ...] | None:
        return column_widths(self.natural, width - self.first.cell_length)


def table(rows: Iterable[Sequence[Content]], right: Set[int] = frozenset()) -> list[TableRow]:
    """Return the rows of a table with equally many cells."""
    cells = [tuple(row) for row in rows]
    natural = tuple(max(cell.cell_length for cell in column) for column in zip(*cells, strict=True))
    return [TableRow(Content(_COLUMN_SEPARATOR).join(row), cells=row, natural=natural, right=right) for row in cells]


@lru_cache(256)
def column_widths(natural: tuple[int, ...], width: int) -> tuple[int, ...] | None:
    """Return column widths that fit, narrowing the widest first; None if they cannot fit."""
    room = width - _GAP_CELLS * (len(natural) - 1)
    if room < _MIN_COLUMN_CELLS * len(natural) and room < sum(natural):
        return None
    widest = max(natural, default=0)
    while sum(min(cells, widest) for cells in natural) > room:
        widest -= 1
    return tuple(min(cells, widest) for cells in natural)
