"""Textual's compositor renders every visible widget for any change; this compositor renders only changed lines."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any

from rich.style import Style
from textual._compositor import Compositor
from textual._context import visible_screen_stack
from textual.geometry import Region
from textual.screen import Screen
from textual.scrollbar import ScrollBar, ScrollBarRender
from textual.strip import Strip
from textual.widget import Widget

from app.ui.terminal.frame import Frame, FrameUpdate, Scroll, frame_of


class LineCompositor(Compositor):
    """Renders the lines in dirty regions, and only the visible part of each widget."""

    def __init__(self) -> None:
        super().__init__()
        self._draws_soon = False
        self._scrolled: tuple[Widget, int] | None = None
        """A widget whose lines move up in the next drawing, and by how many lines."""

    def draw_soon(self, widget: Widget, *regions: Region, scrolled: int = 0) -> None:
        """Draw parts of a widget in the next turn of the event loop; `Widget.refresh` takes five messages for that.

        Args:
            scrolled: Number of lines by which everything else in the widget moved up.
        """
        if self._scrolled is not None and self._scrolled[0] is widget:
            self._draw_scrolled()
        elif scrolled:
            # Only one widget scrolls in a drawing; other waiting widgets are drawn whole.
            self._draw_scrolled()
            self._scrolled, view = (widget, scrolled), self._view(widget)
            if widget._repaint_regions or any(view.overlaps(region) for region in self._dirty_regions):
                # Waiting parts have moved as well.
                self._draw_scrolled()
        widget._set_dirty(*regions)
        if not self._draws_soon:
            self._draws_soon = True
            asyncio.get_running_loop().call_soon(self._draw, widget.screen)

    def _draw_scrolled(self) -> None:
        if self._scrolled is not None:
            self._scrolled[0]._set_dirty()
            self._scrolled = None

    def _view(self, widget: Widget) -> Region:
        region, clip = self.visible_widgets.get(widget, (Region(), Region()))
        return region.intersection(clip)

    def _draw(self, screen: Screen[Any]) -> None:
        self._draws_soon, app = False, screen.app
        try:
            waits = screen._layout_required or screen._scroll_required or screen._repaint_required
            if screen is app.screen and not (app._batch_count or waits):
                screen._compositor_refresh()
            else:
                # Below another screen nothing is scrolled.
                self._draw_scrolled()
                screen._dirty_widgets.update(self._changed)
                screen.check_idle()
        except Exception as error:
            app._handle_exception(error)

    @property
    def _changed(self) -> set[Widget]:
        return {widget for widget in self.visible_widgets if widget._repaint_regions}

    def render_update(
        self, full: bool = False, screen_stack: list[Screen[object]] | None = None, simplify: bool = False
    ) -> Any:
        if simplify:
            # A picture of the whole screen
            return super().render_update(full, screen_stack, simplify)
        visible_screen_stack.set(screen_stack or [])
        # Include changes of this layout, such as scrollbars, instead of another update.
        self.update_widgets(self._changed)
        if self.root is None:
            return None
        app, screen = self.root.app, self.size.region
        scroll = self._scroll(frame_of(app)) if app._sync_available else None
        if scroll is None and self._scrolled is not None:
            self._dirty_regions.add(self._view(self._scrolled[0]))
        self._scrolled = None
        regions = {screen} if full else {region.intersection(screen) for region in self._dirty_regions}
        self._dirty_regions.clear()
        spans = list(self._regions_to_spans(regions))
        if not spans:
            return None
        return FrameUpdate(frame_of(app), dict(sorted(self._pieces(spans))), app._sync_available, scroll)

    def _scroll(self, frame: Frame) -> Scroll | None:
        """Return how the terminal scrolls, if that takes fewer characters than writing the lines."""
        if self._scrolled is None:
            return None
        widget, n = self._scrolled
        scroll = Scroll(self._view(widget), n)
        return scroll if frame.can_scroll(scroll, self.size.width) else None

    def _pieces(self, spans: Iterable[tuple[int, int, int]]) -> Iterator[tuple[tuple[int, int], Strip]]:
        """Yield the visible pieces in spans of lines (line, first column, end)."""
        open_spans = {y: [span[1:] for span in line] for y, line in groupby(spans, lambda span: span[0])}
        for widget, (region, clip) in self.visible_widgets.items():
            if not open_spans:
                return
            shown = region.intersection(clip)
            top, bottom, left, right = shown.y, shown.bottom, shown.x, shown.right
            lines = [
                y
                for y, free in open_spans.items()
                if top <= y < bottom and any(a < right and left < b for a, b in free)
            ]
            if not lines:
                continue
            crop = Region(left - region.x, lines[0] - region.y, shown.width, lines[-1] + 1 - lines[0])
            for y, strip in enumerate(_lines(widget, crop), lines[0]):
                rest = []
                for start, end in open_spans.get(y, ()):
                    first, last = max(start, left), min(end, right)
                    if first >= last:
                        rest.append((start, end))
                        continue
                    yield (y, first), strip.crop(first - left, last - left)
                    rest += [part for part in ((start, first), (last, end)) if part[0] < part[1]]
                if rest:
                    open_spans[y] = rest
                else:
                    open_spans.pop(y, None)


def _lines(widget: Widget, crop: Region) -> Sequence[Strip]:
    """Return lines of a widget. Textual draws a scrollbar through Rich, which takes longer than a page of text."""
    bar = widget.render() if isinstance(widget, ScrollBar) and widget.vertical else None
    if not isinstance(bar, ScrollBarRender) or widget.styles.gutter:
        return widget.render_lines(crop)
    lines = _bar_lines(widget.size.height, bar.virtual_size, bar.window_size, bar.position, bar.thickness, bar.style)
    return lines[crop.y : crop.bottom]


@lru_cache(64)
def _bar_lines(
    height: int, virtual_size: int, window_size: int, position: float, thickness: int, style: Style
) -> Sequence[Strip]:
    assert style.bgcolor is not None
    assert style.color is not None
    bar = ScrollBarRender.render_bar(
        height, virtual_size, window_size, position, thickness, True, style.bgcolor, style.color
    )
    # Most of its lines are equal.
    strips = {segment: Strip([segment], thickness) for segment in bar.segments}
    return [strips[segment] for segment in bar.segments]
