"""The text of a prompt: what was pasted stands in it as a mark, and goes in and out whole."""

from __future__ import annotations

from textual import events
from textual.widgets.text_area import Document

from app.conversations.attached import Attachment, compose, split
from app.core.printable import printable
from app.ui.composer.pastes import Pastes, is_paste
from app.ui.widgets.text_editor import TextEditor


class PromptEditor(TextEditor):
    """Edits a message.

    Messages go in and out whole, with pastes in front of the question (see `app.conversations.attached`); the text area
    holds the question with a mark for each paste.

    Args:
        placeholder: What it says while it is empty.

    Attributes:
        as_it_stands: Whether what is written is no prompt, and goes in and out without being taken apart: an answer may
            look like a message with files in front of it, and means every line.
    """

    def __init__(self, placeholder: str = "") -> None:
        super().__init__(placeholder)
        self._pastes = Pastes()
        self.as_it_stands = False

    @property
    def written(self) -> str:
        """The message."""
        return compose(self.text, self.pastes)

    @property
    def pastes(self) -> tuple[Attachment, ...]:
        """The pastes that the text has a mark for."""
        return () if self.as_it_stands else self._pastes.found_in(self.text)

    @property
    def cursor(self) -> int | None:
        """The character that the cursor stands before; None while text is selected."""
        return self._lines.get_index_from_location(self.cursor_location) if self.selection.is_empty else None

    def write(self, message: str, more: str = "") -> None:
        """Put a message in place of what is there, and behind it more of the text."""
        # What models and files say is kept as it came, and a text area writes it to the terminal as it is.
        shown = printable(message)
        question, attachments = split(shown)
        if self.as_it_stands or not all(each.is_file or is_paste(each) for each in attachments):
            question, attachments = shown, ()
        pastes = (each for each in attachments if not each.is_file)
        self.load_text(self._pastes.adopt(question, pastes) + more)
        self.move_cursor(self.document.end)

    def type_over(self, text: str, start: int, end: int) -> None:
        """Put a text in place of what stands between two characters, as if it had been typed."""
        at = self._lines.get_location_from_index
        self._replace_via_keyboard(text, at(start), at(end))

    # Editing

    def action_paste(self) -> None:
        """Paste what was copied here, like anything else that is pasted."""
        self.post_message(events.Paste(self.app.clipboard))

    def action_delete_left(self) -> None:
        """Delete the character before the cursor, or the mark of a paste as one."""
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
