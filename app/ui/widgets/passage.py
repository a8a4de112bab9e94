"""Text as it was typed, or as the program says it: broken where a reader would break it, and copied whole."""

from __future__ import annotations

from textual.content import Content
from textual.geometry import Size
from textual.strip import Strip

from app.ui.reading.rows import Line, as_typed
from app.ui.widgets.rows_view import RowsView


class Passage(RowsView):
    """Text that comes at once, line for line.

    Args:
        text: Without what could steer a terminal.
        classes: Of the widget, with spaces between them.
    """

    def __init__(self, text: str | Content = "", classes: str = "") -> None:
        super().__init__()
        self.set_classes(classes)
        self.write(text)

    def write(self, text: str | Content) -> None:
        """Show something else."""
        content = Content(text) if isinstance(text, str) else text
        self.put(0, [as_typed(line) for line in content.split(allow_blank=True)] if content else [])

    def line_of(self, at: int) -> int:
        """The screen line of a character of the text."""
        width, above = self.size.width, 0
        for row in self.rows:
            written = row.content.plain if row.source is None else row.source
            if at <= len(written):
                return above + as_typed(Content(written[:at])).height(width) - 1
            above, at = above + row.height(width), at - len(written) - 1
        return max(0, above - 1)

    def draw(self, number: int, line: Line) -> Strip:
        # Nothing stands before most lines; an empty one has a place as well.
        return super().draw(number, [part for part in line if part[1]] or line[-1:])

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        # The space below it is its place's.
        return max(0, super().get_content_height(container, viewport, width) - 1)
