"""The text of a prompt, edited here or in the user's own editor; a short mark stands for each long paste."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from asyncio import wrap_future
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from textual import events
from textual.app import App, SuspendNotSupported
from textual.widgets.text_area import Document

from app.conversations.attached import Attachment, compose, replace_references, split
from app.core.errors import AppError
from app.core.pictures import Picture
from app.core.printable import printable
from app.core.program import in_background
from app.core.units import counted
from app.ui.text import size
from app.ui.widgets.inputs import TextEditor

LONGEST = 4000
"""Longest paste that is inserted unchanged, in characters."""
MOST_LINES = 40
_PASTE_PREFIX = "pasted "
"""Prefix of the name of every paste."""
_PASTE_NUMBER = re.compile(r", no\. [0-9]+$")


class Pastes:
    """The pastes of this session by their marks.

    None is forgotten: undo restores the mark of a paste that was sent or deleted.
    """

    def __init__(self) -> None:
        self._known: dict[str, Attachment] = {}

    def fold(self, text: str) -> str:
        """Return the text to insert for a paste: its text, or its mark."""
        lines = text.count("\n") + (not text.endswith("\n"))
        if len(text) <= LONGEST and lines <= MOST_LINES:
            return text
        name = f"{_PASTE_PREFIX}{size(len(text.encode('utf-8', 'replace')))}, {counted(lines, 'line')}"
        return self.remember(Attachment(name, text, is_file=False))

    def remember(self, paste: Attachment) -> str:
        """Remember a paste and return its mark; another text with the same name gets a number."""
        name, unnumbered, number = paste.name, _PASTE_NUMBER.sub("", paste.name), 0
        while (known := self._known.get(f"[{name}]")) is not None and known.text != paste.text:
            number += 1
            name = f"{unnumbered}, no. {number}" if number > 1 else unnumbered
        paste = replace(paste, name=name, is_file=False)
        self._known[paste.reference] = paste
        return paste.reference

    def found_in(self, text: str) -> tuple[Attachment, ...]:
        """Return the pastes whose marks are in a text, in its order."""
        found = [(text.find(mark), paste) for mark, paste in self._known.items()] if "[" in text else []
        return tuple(paste for at, paste in sorted(found, key=lambda each: each[0]) if at >= 0)

    def mark_before(self, text: str) -> int:
        """Return the length of the mark at the end of a text, or 0."""
        return next((len(mark) for mark in self._known if text.endswith(mark)), 0)


def _is_paste(attachment: Attachment) -> bool:
    return attachment.picture is not None or attachment.name.startswith(_PASTE_PREFIX)


class PromptEditor(TextEditor):
    """Edits a message: its question with a mark for each paste (see `app.conversations.attached`).

    Attributes:
        as_it_stands: Whether the text stays whole: an edited answer may look like a message with files.
        awaits_chord: Whether ctrl+x was pressed, so that ctrl+e opens the editor.
    """

    def __init__(self, placeholder: str = "") -> None:
        super().__init__(placeholder)
        self._pastes = Pastes()
        self.as_it_stands = self.awaits_chord = False

    @property
    def written(self) -> str:
        """Return the message, with all pastes."""
        return compose(self.text, self.pastes)

    @property
    def pastes(self) -> tuple[Attachment, ...]:
        """Return the pastes whose marks are in the text."""
        return () if self.as_it_stands else self._pastes.found_in(self.text)

    @property
    def cursor(self) -> int | None:
        """Position of the cursor; None while text is selected."""
        return self._lines.get_index_from_location(self.cursor_location) if self.selection.is_empty else None

    def write(self, message: str, more: str = "") -> None:
        """Replace the text by a message, followed by more text."""
        # Stored text is raw text of models and files, and a text area writes it to the terminal.
        shown = printable(message)
        question, attachments = split(shown)
        # The user typed other fences before the question.
        if self.as_it_stands or not all(each.is_file or _is_paste(each) for each in attachments):
            question, attachments = shown, ()
        # A picture is stored, and its file may be gone.
        kept = [each for each in attachments if not each.is_file or each.picture is not None]
        marks = {reference: self._pastes.remember(each) for each in kept for reference in each.references}
        self.load_text(replace_references(question, marks) + more)
        self.move_cursor(self.document.end)

    def show_picture(self, picture: Picture) -> None:
        """Insert a pasted picture as its mark."""
        self.type_in(self._pastes.remember(Attachment.of(picture, f"{_PASTE_PREFIX}picture")))

    def type_over(self, text: str, start: int, end: int) -> None:
        """Replace the text between two positions, as if typed."""
        at = self._lines.get_location_from_index
        self._replace_via_keyboard(text, at(start), at(end))

    # Editing

    def action_paste(self) -> None:
        """Paste text copied in Tandem, like any other paste."""
        self.post_message(events.Paste(self.app.clipboard))

    def action_cut(self) -> None:
        """Cut the selected text; without a selection, the key begins the chord that opens the editor, as in shells."""
        if self.selected_text:
            super().action_cut()
        else:
            self.awaits_chord = True

    async def on_key(self, event: events.Key) -> None:
        awaited, self.awaits_chord = self.awaits_chord, False
        if awaited and event.key == "ctrl+e":
            event.stop()
            event.prevent_default()
            await self.run_action("screen.do('editor')")

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


async def edited(text: str, app: App[Any]) -> str:
    """Return the text as edited in the user's own editor, which uses the terminal meanwhile. Raises AppError."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not editor:
        found = next(filter(shutil.which, ("nano", "vim", "vi")), None)
        fix = f"Quit, and start Tandem with one: EDITOR={found} tandem" if found else "Set EDITOR to an editor."
        raise AppError("No editor is set.", fix)
    try:
        with TemporaryDirectory(prefix="tandem-") as folder:
            file = Path(folder, "prompt.md")
            file.write_text(text, encoding="utf-8")
            command = [*shlex.split(editor), str(file)]
            # Nothing may be drawn while the editor has the terminal.
            with app.batch_update(), app.suspend():
                code = await wrap_future(in_background(lambda: subprocess.call(command), "editor"))
            if code:
                raise AppError(f"{editor} ended with exit code {code}.", "The prompt is unchanged.")
            return file.read_text(encoding="utf-8").removesuffix("\n")
    except SuspendNotSupported as error:
        fix = "Write the prompt into a file with it, and include that file with @."
        raise AppError(f"{editor} cannot use the terminal of Tandem here.", fix) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise AppError(f"{editor} cannot be used: {reason}.", "Set EDITOR to another editor.") from error
