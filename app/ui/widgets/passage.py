"""A few words of the program's own: paths in them are broken behind their separators, and copied whole."""

from __future__ import annotations

from textual.content import Content
from textual.geometry import Size

from app.ui.reading.rows import Row
from app.ui.widgets.rows_view import RowsView


class Passage(RowsView):
    """Short text, line for line.

    Args:
        text: Without what could steer a terminal.
        classes: Of the widget, with spaces between them.
    """

    def __init__(self, text: str = "", classes: str = "") -> None:
        super().__init__()
        self.set_classes(classes)
        self.write(text)

    def write(self, text: str) -> None:
        """Say something else."""
        self.put(0, [Row(Content(line)) for line in text.split("\n")] if text else [])

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        # The space below it is its place's.
        return max(0, super().get_content_height(container, viewport, width) - 1)
