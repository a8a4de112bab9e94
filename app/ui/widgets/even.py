"""What lies under other widgets: drawn once for all its lines, since hardly anything of it is seen."""

from __future__ import annotations

from typing import Self

from textual.geometry import Region, Size
from textual.reactive import var
from textual.strip import Strip
from textual.widget import Widget


class Even(Widget):
    """A container whose lines all look alike: it has no border or padding above and below, and no text of its own.

    The last of the base classes: a widget has the styles of the first.
    """

    # What lies on it is laid out with it; Textual would lay out and draw everything once more whenever it has grown.
    virtual_size = var(Size(0, 0))

    _line: tuple[tuple[int, int, int], Strip] | None = None
    """One line, the columns that it was drawn for, and the width of the widget then."""

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
