"""Selectable rows of text: only visible lines that changed are drawn."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice, takewhile
from pickle import dumps
from typing import Any, Protocol, Self, runtime_checkable

from rich.color import ColorSystem
from rich.segment import Segment
from rich.style import Style as RichStyle
from textual.content import Content
from textual.geometry import Region, Size
from textual.reactive import var
from textual.selection import Selection
from textual.strip import Strip
from textual.style import Style
from textual.widget import Widget

from app.ui.reading.rows import Line, Row, as_typed
from app.ui.widgets.row_layout import RowLayout


def n_leading(matches: Iterable[bool]) -> int:
    """Count the leading True values."""
    return sum(1 for _ in takewhile(bool, matches))


def _looks_like(line: Line, other: Line) -> bool:
    return len(line) == len(other) and all(
        (at, content.is_same(theirs)) == (their_at, True)
        for (at, content), (their_at, theirs) in zip(line, other, strict=True)
    )


class RowList:
    """Rows of text, and their screen lines at the width that is asked for.

    Args:
        paint: Draws a line of the row with a number, at a width.

    Attributes:
        rows: Everything that is shown; change it with `put`.
        width: Cells of a line, as last asked for.
    """

    def __init__(self, paint: Callable[[int, Line, int], Strip]) -> None:
        self.rows: list[Row] = []
        self.width = 0
        self.layout = RowLayout(
            lambda: len(self.rows), lambda number, width: self.rows[number].height(width), self._draw, Strip.blank
        )
        self._paint = paint
        self._highlighted: re.Pattern[str] | None = None
        self._chosen_match: int | None = None
        self._latest: tuple[int, int, Sequence[Line], Sequence[Strip]] = (0, 0, (), ())
        """The row that was drawn last, its width and its lines."""

    def n_lines(self, width: int) -> int:
        """Return the number of lines at a width; later calls are about this width."""
        self.width = width
        return self.layout.n_lines(width)

    def lines(self, first: int, end: int) -> Iterator[Strip]:
        """Yield the lines from one to another, as far as there are rows."""
        return self.layout.lines(first, end, self.width)

    def top_of(self, row: int) -> int:
        """Return the first line of a row."""
        return self.layout.top(row, self.width)

    def put(self, start: int, rows: Sequence[Row]) -> int:
        """Replace all rows from the one numbered `start` on; return the first line that looks different."""
        same = n_leading(old.looks_like(new) for old, new in zip(self.rows[start:], rows, strict=False))
        start += same
        drawn = self.layout.stored(start)
        self.rows[start:] = rows[same:]
        self.layout.forget(start)
        top = self.top_of(start)
        if self.width and drawn and start < len(self.rows):
            # Only the last lines of a growing paragraph look different.
            top += n_leading(old == new for old, new in zip(drawn, self.layout.draw(start), strict=False))
        return top

    def redraw(self) -> None:
        """Draw all rows again; their heights stay."""
        self.layout.redraw()
        self._latest = (0, 0, (), ())

    def _draw(self, number: int, width: int) -> list[Strip]:
        lines = list(self._marked(number).lines(width))
        at_number, at_width, before, drawn = self._latest
        # All but the last lines of a growing paragraph stay.
        n_same = n_leading(map(_looks_like, before, lines)) if (at_number, at_width) == (number, width) else 0
        strips = [*drawn[:n_same], *(self._paint(number, line, width) for line in lines[n_same:])]
        self._latest = number, width, lines, strips
        return strips

    # Matches of a search

    def highlight(self, words: re.Pattern[str] | None, number: int | None = None) -> None:
        """Mark every match, also in later rows, and underline one of them; None for `words` marks none."""
        self._highlighted, self._chosen_match = words, number
        self.redraw()

    def _marked(self, number: int) -> Row:
        row, words = self.rows[number], self._highlighted
        if words is None:
            return row
        chosen = self.match(words, self._chosen_match) if self._chosen_match is not None else None
        row = row.highlighted(words)
        if chosen is not None and chosen[0] == number:
            row = replace(row, content=row.content.stylize("underline", *chosen[1].span()))
        return row

    def n_matches(self, words: re.Pattern[str]) -> int:
        """Return how many matches the rows have."""
        return sum(1 for row in self.rows for _ in words.finditer(row.content.plain))

    def match(self, words: re.Pattern[str], number: int = 0) -> tuple[int, re.Match[str]] | None:
        """Return the match with a number from 0, and the number of its row; None if there is none."""
        found = ((at, match) for at, row in enumerate(self.rows) for match in words.finditer(row.content.plain))
        return next(islice(found, number, None), None)

    def line_of_match(self, words: re.Pattern[str], number: int = 0) -> int | None:
        """Return the screen line of the match with a number from 0; None if there is none, or before the layout."""
        found = self.match(words, number)
        if found is None or not self.width:
            return None
        at, match = found
        lines = self.rows[at].lines(self.width)
        ends = (max((start + len(part) for start, part in line if start is not None), default=0) for line in lines)
        return self.top_of(at) + n_leading(end <= match.start() for end in ends)

    def mark_match(self, words: re.Pattern[str], number: int, style: str) -> None:
        """Mark the match with a number from 0, if there is one, in a style."""
        if (found := self.match(words, number)) is not None:
            at, match = found
            row = self.rows[at]
            marked = replace(row, content=row.content.stylize(style, *match.span()))
            self.put(at, [marked, *self.rows[at + 1 :]])

    def selected(self, selection: Selection, first: int = 0) -> Iterator[str]:
        """Yield the selected text of each row, with lines as they were written; `first` numbers the first row."""
        for number, row in enumerate(self.rows, first):
            if (span := selection.get_span(number)) is not None:
                yield ("" if row.joined else "\n") + (row.text if span == (0, -1) else row.part(*span))


@runtime_checkable
class SoonDrawing(Protocol):
    """A compositor that draws without messages."""

    def draw_soon(self, widget: Widget, *regions: Region, scrolled: int = 0) -> None:
        """Draw parts of a widget in the next turn of the event loop."""


def draw_soon(widget: Widget, *regions: Region, scrolled: int = 0) -> None:
    """Draw parts of a widget, without the five messages that `refresh` takes where that is possible.

    `scrolled` is the number of lines that everything else in it has moved up.
    """
    compositor = widget.screen._compositor if widget.is_attached else None
    if isinstance(compositor, SoonDrawing):
        compositor.draw_soon(widget, *regions, scrolled=scrolled)
    else:
        widget.refresh(*(() if scrolled else regions))


class RowCanvas(Widget):
    """A widget that draws rows itself."""

    # Growing content must not cause a second layout.
    virtual_size = var(Size(0, 0))

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        # Links in a model's text cannot be clicked.
        self.auto_links = False
        self._own_selection: Selection | None = None
        self._drawn_style: Style | None = None
        """The widget's style that the background below belongs to."""

    def selection_updated(self, selection: Selection | None) -> None:
        self._own_selection = selection
        super().selection_updated(selection)

    def render_lines(self, crop: Region) -> list[Strip]:
        if self.styles.gutter:
            return super().render_lines(crop)
        # Textual would render every visible line again whenever the text grows.
        return [strip.crop(crop.x, crop.right) for strip in self.strips(crop.y, crop.bottom)]

    def strips(self, first: int, end: int) -> Iterable[Strip]:
        """Return the lines of the view from one to another."""
        raise NotImplementedError

    def render_line(self, y: int) -> Strip:
        return next(iter(self.strips(y, y + 1)))

    def segments(self, line: Line, number: int, style: str = "") -> list[Segment]:
        """Return a line of the row that a selection knows by a number; `style` is below all other styles."""
        base = self.visual_style
        span = self._own_selection.get_span(number) if self._own_selection is not None else None
        segments: list[Segment] = []
        # An empty line has a place as well.
        for at, content in [part for part in line if part[1]] or line[-1:]:
            if at is not None and span is not None:
                content = self._selected(content, span[0] - at, len(content) if span[1] < 0 else span[1] - at)
            for text, own in (content.stylize_before(style) if style else content).render(base, end=""):
                shown = base + own
                if at is None:
                    segments.append(Segment(text, shown.rich_style))
                else:
                    segments.append(Segment(text, self._placed(shown, at, number)))
                    at += len(text)
        return segments

    def _placed(self, style: Style, at: int, number: int) -> RichStyle:
        """Return a style with the place of its text; made by Textual, it would not have the escape codes yet."""
        shown = style.rich_style
        if shown._null:
            return style.rich_style_with_offset(at, number)
        if shown._ansi is None:
            Strip.render_ansi(shown, self.app.console._color_system or ColorSystem.TRUECOLOR)
        copied = shown.copy()
        copied._meta, copied._hash = dumps({"offset": (at, number)}), None
        return copied

    def _selected(self, content: Content, start: int, end: int) -> Content:
        start, end = max(0, start), min(len(content), end)
        if start >= end:
            return content
        return content.stylize(Style.from_styles(self.screen.get_component_styles("screen--selection")), start, end)

    def finished(self, segments: Sequence[Segment], width: int) -> Strip:
        """Return a line of a width, in the colors that the terminal can show."""
        if self._drawn_style is not (style := self.visual_style):
            base, self._ground = self.background_colors
            self._drawn_style, self._ground_style = style, Style(background=base + self._ground).rich_style
        strip = Strip(segments).adjust_cell_length(width, self._ground_style)
        for each in self.get_line_filters():
            strip = strip.apply_filter(each, self._ground)
        return strip


class RowsView(RowCanvas):
    """Rows of text, with one blank line below them; change them with `put` or `exchange`."""

    DEFAULT_CSS = "RowsView { width: 1fr; height: auto; }"
    n_below = 1
    """Blank lines below the rows."""

    def __init__(self) -> None:
        self.list = RowList(self._paint)
        super().__init__()

    @property
    def rows(self) -> Sequence[Row]:
        """Everything that is shown."""
        return self.list.rows

    def put(self, start: int, rows: Sequence[Row]) -> None:
        """Replace all rows from the one numbered `start` on."""
        width = self.size.width
        before, top, after = self.list.n_lines(width), self.list.put(start, rows), self.list.n_lines(width)
        region = Region(0, top, self.outer_size.width, max(before, after) + 1 - top)
        if not width:
            self.refresh(layout=True)
        elif before != after:
            self.refresh(region, layout=True)
        else:
            draw_soon(self, region)

    def exchange(self, rows: Sequence[Row]) -> None:
        """Replace all rows, each by one in its place if there are as many."""
        width, layout = self.size.width, self.list.layout
        pairs = [*enumerate(zip(self.rows, rows, strict=False))]
        changed = [(number, new) for number, (old, new) in pairs if not old.looks_like(new)]
        if len(rows) != len(self.rows) or any(new.height(width) != self.rows[at].height(width) for at, new in changed):
            self.put(0, rows)
            return
        for number, row in changed:
            self.list.rows[number] = row
            layout.redraw(number)
            draw_soon(self, Region(0, layout.top(number, width), self.outer_size.width, row.height(width)))

    def refresh(self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Self:
        if not regions:
            self.list.redraw()
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return self.list.n_lines(width) + self.n_below if self.rows else 0

    def strips(self, first: int, end: int) -> Iterable[Strip]:
        width = self.size.width
        drawn = list(self.list.layout.lines(first, end, width))
        return drawn + [Strip.blank(width, self.visual_style.rich_style)] * (end - first - len(drawn))

    def _paint(self, number: int, line: Line, width: int) -> Strip:
        segments = self.segments(line, number)
        return Strip(segments) if self.styles.gutter else self.finished(segments, width)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return the selected text, with lines as they were written."""
        return "".join(self.list.selected(selection)).removeprefix("\n"), "\n"


_LONGEST_ROW = 4_000
"""Characters. A longer line is broken: wrapping takes more than linear time."""


def typed_rows(text: str | Content) -> Iterator[Row]:
    """Yield the rows of a complete text without terminal control characters."""
    content = Content(text) if isinstance(text, str) else text
    for line in content.split(allow_blank=True) if content else ():
        for start in range(0, max(1, len(line)), _LONGEST_ROW):
            yield as_typed(line[start : start + _LONGEST_ROW], joined=start > 0)


class Passage(RowsView):
    """Text that is complete and has no terminal control characters, without the blank line below it."""

    n_below = 0

    def __init__(self, text: str | Content = "", classes: str = "") -> None:
        super().__init__()
        self.set_classes(classes)
        self.write(text)

    def write(self, text: str | Content) -> None:
        """Replace the text."""
        self.put(0, list(typed_rows(text)))
