"""Multi-line text editor."""

from __future__ import annotations

from textual import events
from textual.widgets import TextArea

from app.ui.widgets.editing import run_own_binding


class TextEditor(TextArea):
    """Lines to write into, without a frame.

    Args:
        placeholder: What is said while there is no text.
    """

    def __init__(self, placeholder: str = "") -> None:
        super().__init__(
            compact=True, highlight_cursor_line=False, placeholder=placeholder, tab_behavior="focus", soft_wrap=True
        )
        self.cursor_blink = False

    async def on_key(self, event: events.Key) -> None:
        await run_own_binding(self, event)

    def type_in(self, text: str) -> None:
        """Put a text in place of what is selected, as if it had been typed."""
        start, end = self.selection
        self._replace_via_keyboard(text, start, end)

    def action_delete_to_start_of_line(self) -> None:
        """Delete the line up to the cursor; where nothing is before it, all that is written. Undo brings it back."""
        if self.cursor_location[1] or not self.selection.is_empty or not self.text:
            super().action_delete_to_start_of_line()
        else:
            self._replace_via_keyboard("", (0, 0), self.document.end)

    def break_line(self) -> None:
        """Begin a new line."""
        self.type_in("\n")
        self.scroll_cursor_visible()
