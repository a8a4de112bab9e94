"""What lies under other widgets: drawn once for all its lines, since hardly anything of it is seen."""

from __future__ import annotations

from typing import Any, Self

from textual._spatial_map import SpatialMap
from textual._styles_cache import StylesCache
from textual.geometry import Region, Size
from textual.layout import DockArrangeResult, WidgetPlacement
from textual.reactive import var
from textual.strip import Strip
from textual.widget import Widget

_SQUARE = 20
"""Rows of a square in Textual's maps of what lies where."""
_MOST_SQUARES = 100


class _OneLine(StylesCache):
    """Of a widget whose lines all look alike, where Textual would note of each that it is to be drawn anew."""

    def set_dirty(self, *regions: Region) -> None:
        self.clear()


class Even(Widget):
    """A container whose lines all look alike: it has no border or padding above and below, and no text of its own.

    It may be as high as it likes: nothing here takes longer for that. The last of the base classes: a widget has the
    styles of the first.
    """

    # What lies on it is laid out with it; Textual would lay out and draw everything once more whenever it has grown.
    virtual_size = var(Size(0, 0))

    _line: tuple[tuple[int, int, int], Strip] | None = None
    """One line, the columns that it was drawn for, and the width of the widget then."""

    def __init__(self, *children: Widget, **about: Any) -> None:
        super().__init__(*children, **about)
        self._styles_cache = _OneLine()

    def arrange(self, size: Size, optimal: bool = False) -> DockArrangeResult:
        arranged = super().arrange(size, optimal)
        if arranged._spatial_map is None:
            arranged._spatial_map = _mapped(arranged.placements)
        return arranged

    def refresh(self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Self:
        if repaint:
            self._line = None
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)

    def notify_style_update(self) -> None:
        self._line = None
        super().notify_style_update()

    def render_lines(self, crop: Region) -> list[Strip]:
        at = (crop.x, crop.width, self.size.width)
        if self._line is None or self._line[0] != at:
            [strip] = super().render_lines(Region(crop.x, 0, crop.width, 1))
            self._line = at, strip
        # Lines that are one object are also cut, where widgets lie on them, only once.
        return [self._line[1]] * crop.height


def _mapped(placements: list[WidgetPlacement]) -> SpatialMap[WidgetPlacement]:
    """What lies where, in squares that are larger where there would be many."""
    rows = max((placement.region.bottom for placement in placements), default=0)
    found = SpatialMap[WidgetPlacement](grid_height=max(_SQUARE, rows // _MOST_SQUARES))
    found.insert(
        (placement.region.grow(placement.margin), placement.offset, placement.fixed, placement.overlay, placement)
        for placement in placements
    )
    return found
