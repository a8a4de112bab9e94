"""The text of a prompt, in which a mark stands for each long paste."""

from __future__ import annotations

from textual import events
from textual.widgets.text_area import Document

from app.conversations.attached import Attachment, compose, split
from app.core.printable import printable
from app.ui.composer.pasted_text import Pastes, is_paste
from app.ui.widgets.inputs import TextEditor


class PromptEditor(TextEditor):
    """Edit a message: its question with a mark for each paste (see `app.conversations.attached`).

    Args:
        placeholder: Text of an empty editor.

    Attributes:
        as_it_stands: Whether the text stays whole: an edited answer may look like a message with files.
    """

    def __init__(self, placeholder: str = "") -> None:
        super().__init__(placeholder)
        self._pastes = Pastes()
        self.as_it_stands = False

    @property
    def written(self) -> str:
        """The message, with all pastes."""
        return compose(self.text, self.pastes)

    @property
    def pastes(self) -> tuple[Attachment, ...]:
        """The pastes that the text has a mark for."""
        return () if self.as_it_stands else self._pastes.found_in(self.text)

    @property
    def cursor(self) -> int | None:
        """Position of the cursor; None while text is selected."""
        return self._lines.get_index_from_location(self.cursor_location) if self.selection.is_empty else None

    def write(self, message: str, more: str = "") -> None:
        """Replace the text by a message, and more of the text behind it."""
        # Stored text is as models and files had it, and a text area writes it to the terminal.
        shown = printable(message)
        question, attachments = split(shown)
        if self.as_it_stands or not all(each.is_file or is_paste(each) for each in attachments):
            question, attachments = shown, ()
        pastes = (each for each in attachments if not each.is_file)
        self.load_text(self._pastes.adopt(question, pastes) + more)
        self.move_cursor(self.document.end)

    def type_over(self, text: str, start: int, end: int) -> None:
        """Replace the text between two positions, as if typed."""
        at = self._lines.get_location_from_index
        self._replace_via_keyboard(text, at(start), at(end))

    # Editing

    def action_paste(self) -> None:
        """Paste what was copied in Tandem, like any other paste."""
        self.post_message(events.Paste(self.app.clipboard))

    def action_delete_left(self) -> None:
        """Delete the character, or the whole mark, before the cursor."""
        row, column = self.cursor_location
        mark = self._pastes.mark_before(self.document.get_line(row)[:column]) if self.selection.is_empty else 0
        if mark:
            self._replace_via_keyboard("", (row, column - mark), (row, column))
        else:
            super().action_delete_left()

    @property
    def _lines(self) -> Document:
        assert isinstance(self.document, Document)
        return self.document
