"""Selectable rows of text; only visible lines are drawn."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from itertools import islice, takewhile
from typing import Self

from rich.segment import Segment
from textual.content import Content
from textual.geometry import Region, Size
from textual.reactive import var
from textual.selection import Selection
from textual.strip import Strip
from textual.style import Style
from textual.widget import Widget

from app.ui.reading.rows import Line, Part, Row

_MOST_KEPT = 2_000


class Flow:
    """Positions of rows in a text that grows.

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
    """Return whether two screen lines look the same, and are the same places of their rows."""
    old, new = lines
    return len(old) == len(new) and all(
        x == other_x and content.is_same(other) for (x, content), (other_x, other) in zip(old, new, strict=True)
    )


class LinesView(Widget):
    """Draws lines made of parts; anyone who derives from it says which, in `render_line`."""

    def __init__(self) -> None:
        super().__init__()
        # Nothing that a model wrote can be clicked.
        self.auto_links = False

    def draw(self, number: int, line: Line) -> Strip:
        """A line with what is selected of it.

        Args:
            number: Of the row of text that the parts' places refer to.
            line: Its parts.
        """
        base, selection = self.visual_style, self.text_selection
        span = selection.get_span(number) if selection is not None else None
        segments: list[Segment] = []
        for part in line:
            segments += self._segments(part, number, base, span)
        return Strip(segments)

    def _segments(self, part: Part, number: int, base: Style, span: tuple[int, int] | None) -> list[Segment]:
        x, content = part
        if x is None:
            return [Segment(text, (base + style).rich_style) for text, style in content.render(base, end="")]
        if span is not None:
            content = self._selected(content, span[0] - x, len(content) if span[1] < 0 else span[1] - x)
        segments = []
        for text, style in content.render(base, end=""):
            segments.append(Segment(text, (base + style).rich_style_with_offset(x, number)))
            x += len(text)
        return segments

    def _selected(self, content: Content, start: int, end: int) -> Content:
        start, end = max(0, start), min(len(content), end)
        if start >= end:
            return content
        style = Style.from_styles(self.screen.get_component_styles("screen--selection"))
        return content.stylize(style, start, end)


_MOST_DRAWN = 1_000
"""Screen lines that are kept."""


class RowsView(LinesView):
    """Rows of text, as high as they are, with one blank line below them.

    A line is drawn once: Textual draws everything again that has grown, and keeps what it has made of a line with it.
    """

    # Nothing scrolls in it.
    virtual_size = var(Size(0, 0))

    DEFAULT_CSS = "RowsView { width: 1fr; height: auto; }"

    def __init__(self) -> None:
        self._flow = Flow()
        self._drawn: dict[int, Strip] = {}
        self._drawn_at = (0, 0, 0)
        super().__init__()

    @property
    def rows(self) -> Sequence[Row]:
        """Everything that is shown, or will be with its widget."""
        return self._flow.rows

    def put(self, start: int, rows: Sequence[Row]) -> None:
        """Put rows in place of all from the one numbered `start` on."""
        width = self.size.width
        if not width:
            self._flow.replace(start, rows)
            self.refresh(layout=True)
            return
        before = self._flow.height(width)
        changed = self._flow.replace(start, rows)
        after = self._flow.height(width)
        top = self._flow.top(changed) + self._flow.alike
        for y in range(top, before + 1):
            self._drawn.pop(y, None)
        self.refresh(Region(0, top, width, max(before, after) + 1 - top), layout=after != before)

    def refresh(self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Self:
        if not regions:
            self._drawn.clear()
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)

    def render_lines(self, crop: Region) -> list[Strip]:
        drawn = self._drawn
        at = (self.size.width, *crop.column_span)
        if at != self._drawn_at or len(drawn) > _MOST_DRAWN:
            drawn.clear()
            self._drawn_at = at
        missing = [y for y in crop.line_range if y not in drawn]
        if missing and not self.is_attached:
            # It was removed since the last layout, and is still in it.
            return [Strip.blank(crop.width, self.visual_style.rich_style)] * crop.height
        if missing:
            lines = range(missing[0], missing[-1] + 1)
            region = Region(crop.x, lines.start, crop.width, len(lines))
            fresh = super().render_lines(region) if self.styles.gutter else self._bare_lines(region)
            drawn.update(zip(lines, fresh, strict=True))
        return [drawn[y] for y in crop.line_range]

    def _bare_lines(self, crop: Region) -> list[Strip]:
        """Lines with nothing around them, without asking for each of them what that is."""
        width, filters = self.size.width, self.get_line_filters()
        base, background = self.background_colors
        blank = Style(background=base + background).rich_style
        strips = [self.render_line(y).adjust_cell_length(width, blank) for y in crop.line_range]
        for each in filters:
            strips = [strip.apply_filter(each, background) for strip in strips]
        return [strip.crop(*crop.column_span) for strip in strips]

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return self._flow.height(width) + 1 if width and self._flow.rows else 0

    def render_line(self, y: int) -> Strip:
        self._flow.height(self.size.width)
        found = self._flow.at(y)
        return self.draw(*found) if found is not None else Strip.blank(self.size.width, self.visual_style.rich_style)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return what is selected, with lines as their writer meant them."""
        found: list[str] = []
        for number, row in enumerate(self._flow.rows):
            span = selection.get_span(number)
            if span is None:
                continue
            text = row.text if span == (0, -1) else row.part(*span)
            found.append(("" if row.joined or not found else "\n") + text)
        return "".join(found), "\n"
