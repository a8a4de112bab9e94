"""What lies under other widgets: drawn once for all its lines, since hardly anything of it is seen."""

from __future__ import annotations

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

    def render_lines(self, crop: Region) -> list[Strip]:
        # Lines that are one object are also cut, where widgets lie on them, only once.
        return super().render_lines(Region(crop.x, 0, crop.width, 1)) * crop.height
