"""A scrollbar of which only those lines are drawn again that look different."""

from __future__ import annotations

from typing import Self

from rich.segment import Segment, Segments
from textual.geometry import Region
from textual.scrollbar import ScrollBar, ScrollBarRender
from textual.strip import Strip


class SteadyScrollBar(ScrollBar):
    """A vertical one; it looks and behaves as Textual's, which draws all its lines whenever the text has grown.

    Args:
        thickness: Cells across.
    """

    def __init__(self, *, thickness: int) -> None:
        self._drawn: list[Segment] = []
        self._looks_again = False
        super().__init__(vertical=True, name="vertical", thickness=thickness)

    def refresh(self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Self:
        if regions or layout or recompose or not repaint or not self._drawn:
            return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)
        if not self._looks_again:
            self._looks_again = True
            # Where the text has grown, all of this is about to be drawn with it.
            self.call_later(self._look_again)
        return self

    def _look_again(self) -> None:
        self._looks_again = False
        if not self.is_attached:
            return
        cells = self._cells()
        if len(cells) != len(self._drawn):
            super().refresh()
            return
        changed = [y for y, (old, new) in enumerate(zip(self._drawn, cells, strict=True)) if old != new]
        if changed:
            super().refresh(*(Region(0, y, self.size.width, 1) for y in changed))

    def render_lines(self, crop: Region) -> list[Strip]:
        if self.is_attached:
            self._drawn = self._cells()
        background, filters = self.background_colors[1], self.get_line_filters()
        strips: dict[Segment, Strip] = {}
        for cell in self._drawn:
            if cell not in strips:
                strip = Strip([cell], self.size.width).crop(*crop.column_span)
                for each in filters:
                    strip = strip.apply_filter(each, background)
                strips[cell] = strip
        return [strips[cell] for cell in self._drawn[crop.y : crop.bottom]]

    def _cells(self) -> list[Segment]:
        """One segment a line, as wide as the scrollbar."""
        bar = self.render()
        assert isinstance(bar, ScrollBarRender)
        width, height = self.size
        options = self.app.console_options.update_dimensions(width, height)
        [segments] = bar.__rich_console__(self.app.console, options)
        assert isinstance(segments, Segments)
        return list(Segment.apply_style(segments.segments, self.visual_style.rich_style))
