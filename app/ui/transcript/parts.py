"""Parts of a message as screen lines: stacked rows, growing Markdown, and tokens in the colors of their sources."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from textual.content import Content
from textual.selection import Selection
from textual.strip import Strip

from app.engine.text.segments import Segment
from app.ui.key_names import code_key
from app.ui.reading.rows import NOTHING, CodeStart, Line, Row
from app.ui.reading.token_rows import LINE_END, TokenDocument, TokenStyles
from app.ui.widgets.row_canvas import n_leading
from app.ui.widgets.row_layout import RowLayout

Look: TypeAlias = Callable[[int, Row], Row]
"""Returns a row, given its number, in the style in which it is shown."""
QUIET = "$quiet"
_MARKED_BAR_STYLE = "bold $foreground"
"""Style of the bar of the marked code block."""
AT_ONCE = 16_000
"""Characters of Markdown that are read before keys are handled: about 50 ms."""


def _looks_like(line: Line, other: Line) -> bool:
    return len(line) == len(other) and all(
        (at, content.is_same(theirs)) == (their_at, True)
        for (at, content), (their_at, theirs) in zip(line, other, strict=True)
    )


class MessagePart:
    """Stacked rows of a message, and their screen lines at a requested width.

    Attributes:
        rows: All rows; change them with `put`.
        width: Cells of a line, as last requested.
        prefix: Text before every line, which cannot be selected.
        n_below: Blank lines below the rows.
        first_number: Number that a selection adds to the rows' numbers, so that no other part has the same; the view
            that shows the part sets it.
        paint: Draws a line of the row with a number, at a width; the view sets it as well.
        changed: The first line that has changed since the part was drawn, if any.
    """

    paint: Callable[[MessagePart, int, Line, int], Strip]

    def __init__(
        self, rows: Iterable[Row] = (), *, prefix: Content = NOTHING, style: str = "", n_below: int = 0
    ) -> None:
        self.rows: list[Row] = []
        self.width = 0
        self.prefix, self.style, self.n_below = prefix, style, n_below
        self.is_shown = True
        self.first_number = -1
        self.changed: int | None = None
        self._layout = RowLayout(
            lambda: len(self.rows), lambda number, width: self.rows[number].height(width), self._draw, Strip.blank
        )
        self._looks: dict[str, Look] = {}
        self._latest: tuple[int, int, Sequence[Line], Sequence[Strip]] = (0, 0, (), ())
        """The last drawn row, its width and its lines."""
        self.put(0, list(rows))

    def n_lines(self, width: int) -> int:
        """Return the number of lines at a width, which later calls use."""
        self.width = max(1, width - self.prefix.cell_length)
        return self._layout.n_lines(self.width) + self.n_below if self.is_shown and self.rows else 0

    def lines(self, first: int, end: int) -> Iterator[Strip]:
        """Yield the existing lines in a range."""
        return self._layout.lines(first, end, self.width)

    def top_of(self, row: int) -> int:
        """Return the first line of a row."""
        return self._layout.top(row, self.width)

    def put(self, start: int, rows: Sequence[Row]) -> None:
        """Replace all rows from the row `start`."""
        same = n_leading(old.looks_like(new) for old, new in zip(self.rows[start:], rows, strict=False))
        start += same
        drawn = self._layout.stored(start)
        self.rows[start:] = rows[same:]
        self._layout.forget(start)
        top = self.top_of(start)
        if self.width and drawn and start < len(self.rows):
            # Only the last lines of a growing paragraph change.
            top += n_leading(old == new for old, new in zip(drawn, self._layout.draw(start), strict=False))
        self.changed = top if self.changed is None else min(self.changed, top)

    def redraw(self) -> None:
        """Draw all rows again; their heights stay."""
        self._layout.redraw()
        self._latest = (0, 0, (), ())

    def _draw(self, number: int, width: int) -> list[Strip]:
        row = self.rows[number]
        for look in self._looks.values():
            row = look(number, row)
        lines = list(row.lines(width))
        at_number, at_width, before, drawn = self._latest
        # All except the last lines of a growing paragraph stay.
        n_same = n_leading(map(_looks_like, before, lines)) if (at_number, at_width) == (number, width) else 0
        strips = [*drawn[:n_same], *(self.paint(self, number, line, width) for line in lines[n_same:])]
        self._latest = number, width, lines, strips
        return strips

    def mark(self, what: str, look: Look | None) -> None:
        """Show all rows, also later ones, in another style until None ends that; the lines keep their heights."""
        self._looks.pop(what, None)
        if look is not None:
            self._looks[what] = look
        self.redraw()
        self.changed = 0

    def matches(self, words: re.Pattern[str]) -> list[tuple[int, re.Match[str]]]:
        """Return the matches in all rows, each with the number of its row."""
        return [(at, match) for at, row in enumerate(self.rows) for match in words.finditer(row.content.plain)]

    def line_of(self, row: int, at: int) -> int:
        """Return the screen line of a character of a row."""
        lines = self.rows[row].lines(self.width)
        ends = (max((start + len(part) for start, part in line if start is not None), default=0) for line in lines)
        return self.top_of(row) + n_leading(end <= at for end in ends)

    def selected(self, selection: Selection) -> Iterator[str]:
        """Yield the selected text of each row, with unwrapped lines."""
        for number, row in enumerate(self.rows, self.first_number):
            if (span := selection.get_span(number)) is not None:
                yield ("" if row.joined else "\n") + (row.text if span == (0, -1) else row.part(*span))


class MarkdownPart(MessagePart):
    """Growing Markdown; a long text is read in pieces, so that keys do not wait for it."""

    def __init__(self, *, has_code_keys: bool = False, prefix: Content = NOTHING, style: str = "") -> None:
        # The first frame need not wait for the Markdown parser.
        from app.ui.reading.document import MarkdownDocument

        super().__init__(prefix=prefix, style=style, n_below=1)
        self._document = MarkdownDocument(code_key if has_code_keys else None)
        self.unread = ""

    def append(self, text: str) -> None:
        """Show more text; show a long text in part, until the next call of `read`."""
        is_reading = bool(self.unread)
        self.unread += text
        if not is_reading:
            self.read()

    def read(self) -> None:
        """Read the next piece of a long text."""
        piece, self.unread = self.unread[:AT_ONCE], self.unread[AT_ONCE:]
        if piece:
            self.put(*self._document.append(piece))

    def read_all(self) -> None:
        """Read the rest immediately."""
        while self.unread:
            self.read()

    def mark_code(self, number: int) -> int:
        """Mark only the code block with a number from 1; return its first line. 0 marks none."""
        self.read_all()
        starts = [at for at, row in enumerate(self.rows) if isinstance(row, CodeStart)]
        start = starts[number - 1] if 1 <= number <= len(starts) else 0
        end = start + 1 + n_leading(type(row) is Row and row.source is not None for row in self.rows[start + 1 :])

        def look(at: int, row: Row) -> Row:
            first, rest = (bar.stylize(_MARKED_BAR_STYLE) for bar in (row.first, row.rest))
            return replace(row, first=first, rest=rest) if start <= at < end else row

        self.mark("code", look if number else None)
        return self.top_of(start)

    def code_label_at(self, x: int, y: int) -> int | None:
        """Return the number, from 1, of the code block whose label is at a cell, if any."""
        starts = [(at, row.label.cell_length) for at, row in enumerate(self.rows) if isinstance(row, CodeStart)]
        return next(
            (n for n, (at, cells) in enumerate(starts, 1) if self.top_of(at) == y and x >= self.width - cells), None
        )


class TokenPart(MessagePart):
    """The plain text of an answer, in the color of each token's source."""

    def __init__(self, segments: Iterable[Segment], styles: TokenStyles) -> None:
        super().__init__(n_below=1)
        self._document = TokenDocument(styles)
        self.append(segments)

    def append(self, segments: Iterable[Segment]) -> None:
        """Show more text."""
        self.put(*self._document.append(segments))

    @property
    def plain(self) -> str:
        """The whole text."""
        return "".join(map(_plain, self.rows))

    def mark_characters(self, start: int, end: int) -> None:
        """Mark only the characters in a range."""
        marked: dict[int, tuple[int, int]] = {}
        at = 0
        for number, row in enumerate(self.rows):
            marked[number] = max(start - at, 0), min(end - at, len(_plain(row)))
            at += len(_plain(row))

        def look(number: int, row: Row) -> Row:
            begin, stop = marked.get(number, (0, 0))
            return row.stylized("reverse", begin, stop) if begin < stop else row

        self.mark("step", look)

    def character(self, row: int, at: int) -> int:
        """Return the index in the whole text of a character of a row."""
        return sum(map(len, map(_plain, self.rows[:row]))) + at


def _plain(row: Row) -> str:
    return (row.source or "") + "\n" * row.content.plain.endswith(LINE_END)
