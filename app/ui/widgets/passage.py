"""Text as it was typed, or a message of the program."""

from __future__ import annotations

from textual.content import Content
from textual.geometry import Size

from app.ui.reading.rows import as_typed
from app.ui.widgets.rows_view import RowsView

_LONGEST_ROW = 4_000
"""Characters. A longer line is broken: wrapping takes more than linear time."""


class Passage(RowsView):
    """Text that is complete, without the blank line below it.

    Args:
        text: Text without terminal control characters.
        classes: Classes of the widget, with spaces between them.
    """

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

    def line_of(self, at: int) -> int:
        """Return the screen line of a character of the text."""
        width, above = self.size.width, 0
        for row in self.rows:
            written = row.content.plain if row.source is None else row.source
            if at <= len(written):
                return above + as_typed(Content(written[:at])).height(width) - 1
            above, at = above + row.height(width), at - len(written) - 1
        return max(0, above - 1)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return max(0, super().get_content_height(container, viewport, width) - 1)
