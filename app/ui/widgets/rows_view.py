"""Selectable rows of text: only visible lines that changed are drawn."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice, takewhile
from typing import Protocol, Self, runtime_checkable

from rich.segment import Segment
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


@runtime_checkable
class GrowingView(Protocol):
    """A scroll view whose contents grow."""

    def make_room(self, widget: Widget, more: int) -> bool:
        """Make a widget taller by `more` lines; return False if that takes a layout of the screen."""


@runtime_checkable
class SoonDrawing(Protocol):
    """A compositor that draws without messages."""

    def draw_soon(self, widget: Widget, *regions: Region) -> None:
        """Draw parts of a widget in the next turn of the event loop."""


class RowsView(Widget):
    """Rows of text, with one blank line below them.

    Attributes:
        rows: Everything that is shown; change it with `put`.
    """

    # Growing content must not cause a second layout.
    virtual_size = var(Size(0, 0))

    DEFAULT_CSS = "RowsView { width: 1fr; height: auto; }"

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._layout = RowLayout(
            lambda: len(self.rows), lambda number, width: self.rows[number].height(width), self._draw_row, self._blank
        )
        self._highlighted: re.Pattern[str] | None = None
        self._latest: tuple[int, int, Sequence[Line], Sequence[Strip]] = (0, 0, (), ())
        """The row that was drawn last, its width and its lines."""
        super().__init__()
        # Links in a model's text cannot be clicked.
        self.auto_links = False

    def put(self, start: int, rows: Sequence[Row]) -> None:
        """Replace all rows from the one numbered `start` on."""
        if (words := self._highlighted) is not None:
            rows = [row.highlighted(words) for row in rows]
        width, layout = self.size.width, self._layout
        before, height = layout.n_lines(width), self.get_content_height(self.size, self.size, width)
        same = n_leading(old.looks_like(new) for old, new in zip(self.rows[start:], rows, strict=False))
        start += same
        drawn = layout.stored(start)
        self.rows[start:] = rows[same:]
        layout.forget(start)
        if not width:
            self.refresh(layout=True)
            return
        after, top = layout.n_lines(width), layout.top(start, width)
        if drawn and start < len(self.rows):
            # Only the last lines of a growing paragraph look different.
            top += n_leading(old == new for old, new in zip(drawn, layout.draw(start), strict=False))
        region = Region(0, top, self.outer_size.width, max(before, after) + 1 - top)
        more = self.get_content_height(self.size, self.size, width) - height
        if more and self.display and not self._has_room(more):
            self.refresh(region, layout=True)
        else:
            self._draw_soon(region)

    def exchange(self, rows: Sequence[Row]) -> None:
        """Replace all rows, each by one in its place if there are as many."""
        width, layout = self.size.width, self._layout
        pairs = [*enumerate(zip(self.rows, rows, strict=False))]
        changed = [(number, new) for number, (old, new) in pairs if not old.looks_like(new)]
        if len(rows) != len(self.rows) or any(new.height(width) != self.rows[at].height(width) for at, new in changed):
            self.put(0, rows)
            return
        for number, row in changed:
            self.rows[number] = row
            layout.redraw(number)
            self._draw_soon(Region(0, layout.top(number, width), self.outer_size.width, row.height(width)))

    def _draw_soon(self, region: Region) -> None:
        compositor = self.screen._compositor if self.is_attached else None
        if isinstance(compositor, SoonDrawing):
            compositor.draw_soon(self, region)
        else:
            self.refresh(region)

    def _has_room(self, more: int) -> bool:
        """Return whether more lines have found their place without a layout of the screen."""
        view = next((each for each in self.ancestors if isinstance(each, GrowingView)), None)
        return view is not None and view.make_room(self, more)

    def refresh(self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Self:
        if not regions:
            self._layout.redraw()
            self._latest = (0, 0, (), ())
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)

    def highlight(self, words: re.Pattern[str]) -> int | None:
        """Mark every match, also in later rows; return the screen line of the first one, or None."""
        self._highlighted = words
        self.put(0, self.rows)
        return self.line_of_match(words)

    def mark_match(self, words: re.Pattern[str], number: int, style: str) -> None:
        """Mark the match with a number from 0, if there is one, in a style."""
        for at, match in islice(self._matches(words), number, number + 1):
            row = self.rows[at]
            marked = replace(row, content=row.content.stylize(style, *match.span()))
            self.put(at, [marked, *self.rows[at + 1 :]])

    def line_of_match(self, words: re.Pattern[str], number: int = 0) -> int | None:
        """Return the screen line of the match with a number from 0; None if there is no match, or before the layout."""
        found = next(islice(self._matches(words), number, None), None)
        return self._line_of(*found) if found is not None and self.size.width else None

    def _matches(self, words: re.Pattern[str]) -> Iterator[tuple[int, re.Match[str]]]:
        return ((number, found) for number, row in enumerate(self.rows) for found in words.finditer(row.content.plain))

    def _line_of(self, number: int, found: re.Match[str]) -> int:
        lines = self.rows[number].lines(self.size.width)
        ends = (max((at + len(part) for at, part in line if at is not None), default=0) for line in lines)
        return self.line_of_row(number) + n_leading(end <= found.start() for end in ends)

    def line_of_row(self, number: int) -> int:
        """Return the first screen line of a row."""
        return self._layout.top(number, self.size.width)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return self._layout.n_lines(width) + 1 if self.rows else 0

    def render_lines(self, crop: Region) -> list[Strip]:
        if self.styles.gutter:
            return super().render_lines(crop)
        # Textual would render every visible line again whenever the text grows.
        return [self.render_line(y).crop(*crop.column_span) for y in crop.line_range]

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        return self._layout.line(y, width) or self._blank(width)

    def _blank(self, width: int) -> Strip:
        return Strip.blank(width, self.visual_style.rich_style)

    def _draw_row(self, number: int, width: int) -> list[Strip]:
        lines = list(self.rows[number].lines(width))
        at_number, at_width, before, drawn = self._latest
        n_same = 0
        if (at_number, at_width) == (number, width):
            # All but the last lines of a growing paragraph stay.
            n_same = n_leading(map(_looks_like, before, lines))
        fresh = [self._draw(number, line) for line in lines[n_same:]]
        strips = [*drawn[:n_same], *(fresh if self.styles.gutter else self._filtered(fresh, width))]
        self._latest = number, width, lines, strips
        return strips

    def _filtered(self, strips: list[Strip], width: int) -> list[Strip]:
        """Return lines as wide as the widget, in the colors that the terminal can show."""
        base, background = self.background_colors
        blank = Style(background=base + background).rich_style
        strips = [strip.adjust_cell_length(width, blank) for strip in strips]
        for each in self.get_line_filters():
            strips = [strip.apply_filter(each, background) for strip in strips]
        return strips

    def _draw(self, number: int, line: Line) -> Strip:
        base = self.visual_style
        # A widget may be drawn once more after it was removed.
        selection = self.text_selection if self.is_attached else None
        span = selection.get_span(number) if selection is not None else None
        segments: list[Segment] = []
        # An empty line has a place as well.
        for at, content in [part for part in line if part[1]] or line[-1:]:
            if at is not None and span is not None:
                content = self._selected(content, span[0] - at, len(content) if span[1] < 0 else span[1] - at)
            for text, style in content.render(base, end=""):
                shown = base + style
                segments.append(
                    Segment(text, shown.rich_style if at is None else shown.rich_style_with_offset(at, number))
                )
                at = None if at is None else at + len(text)
        return Strip(segments)

    def _selected(self, content: Content, start: int, end: int) -> Content:
        start, end = max(0, start), min(len(content), end)
        if start >= end:
            return content
        style = Style.from_styles(self.screen.get_component_styles("screen--selection"))
        return content.stylize(style, start, end)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return the selected text, with lines as they were written."""
        found: list[str] = []
        for number, row in enumerate(self.rows):
            span = selection.get_span(number)
            if span is None:
                continue
            text = row.text if span == (0, -1) else row.part(*span)
            found.append(("" if row.joined or not found else "\n") + text)
        return "".join(found), "\n"


_LONGEST_ROW = 4_000
"""Characters. A longer line is broken: wrapping takes more than linear time."""


class Passage(RowsView):
    """Text that is complete and has no terminal control characters, without the blank line below it."""

    def __init__(self, text: str | Content = "", classes: str = "") -> None:
        super().__init__()
        self.set_classes(classes)
        self.write(text)

    def write(self, text: str | Content) -> None:
        """Replace the text."""
        content = Content(text) if isinstance(text, str) else text
        rows = []
        for line in content.split(allow_blank=True) if content else ():
            for start in range(0, max(1, len(line)), _LONGEST_ROW):
                rows.append(as_typed(line[start : start + _LONGEST_ROW], joined=start > 0))
        self.put(0, rows)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return max(0, super().get_content_height(container, viewport, width) - 1)
