"""A canvas for selectable rows of text: only visible lines that changed are drawn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from pickle import dumps
from typing import Any

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


def n_leading(matches: Iterable[bool]) -> int:
    """Count the leading True values."""
    return sum(1 for _ in takewhile(bool, matches))


def draw_soon(widget: Widget, *regions: Region, scrolled: int = 0) -> None:
    """Draw parts of a widget, without the five messages of `refresh` if the compositor supports that.

    `scrolled` is the number of lines by which everything else in it moved up.
    """
    soon = getattr(widget.screen._compositor, "draw_soon", None) if widget.is_attached else None
    if soon is not None:
        soon(widget, *regions, scrolled=scrolled)
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
        """The widget's style for the background below."""

    def selection_updated(self, selection: Selection | None) -> None:
        self._own_selection = selection
        super().selection_updated(selection)

    def render_lines(self, crop: Region) -> list[Strip]:
        if self.styles.gutter:
            return super().render_lines(crop)
        # Textual would render every visible line again whenever the text grows.
        return [strip.crop(crop.x, crop.right) for strip in self.strips(crop.y, crop.bottom)]

    def strips(self, first: int, end: int) -> Iterable[Strip]:
        """Return the lines of the view in a range."""
        raise NotImplementedError

    def render_line(self, y: int) -> Strip:
        return next(iter(self.strips(y, y + 1)))

    def segments(self, line: Line, number: int, style: str = "") -> list[Segment]:
        """Return a line of the row with this number in a selection; `style` is below all other styles."""
        base = self.visual_style
        span = self._own_selection.get_span(number) if self._own_selection is not None else None
        segments: list[Segment] = []
        # An empty line has a position as well.
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
        """Return a style with the position of its text; Textual's would not have the escape codes yet."""
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


_LONGEST_ROW = 4_000
"""Longest row in characters; longer lines are broken, because wrapping takes more than linear time."""


def typed_rows(text: str | Content) -> Iterator[Row]:
    """Yield the rows of a complete text without terminal control characters."""
    content = Content(text) if isinstance(text, str) else text
    for line in content.split(allow_blank=True) if content else ():
        for start in range(0, max(1, len(line)), _LONGEST_ROW):
            yield as_typed(line[start : start + _LONGEST_ROW], joined=start > 0)
