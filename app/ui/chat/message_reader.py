"""Read the files in typed text to make messages, and count their tokens."""

from __future__ import annotations

from textual.timer import Timer

from app.core.errors import AppError, Interrupted
from app.core.printable import printable
from app.ui.chat.view import ChatView
from app.ui.composer.included_files import FileReading, message_of
from app.ui.key_names import key

COUNT_AFTER_S = 1.0
"""Seconds without a key before a prompt is counted."""
_COUNTED_CHARS = 400
"""Length above which a prompt is counted, in characters; a prompt with a file is always counted."""


class MessageReader:
    """Makes messages of typed text, one at a time because reading a document takes seconds; counts their tokens."""

    def __init__(self, view: ChatView) -> None:
        self._view = view
        self._reading: FileReading | None = None
        self._refused = ""
        """The last refused text; the second time, its references without a file are sent as text."""
        self._timer: Timer | None = None

    @property
    def is_reading(self) -> bool:
        """Return whether the files of a prompt are being read."""
        return self._reading is not None

    def refuse_if_reading(self) -> None:
        """Raise AppError while the files of a prompt are being read."""
        if self.is_reading:
            raise AppError(f"The files of the last prompt are being read; {key('chat.stop', 'esc')} stops it.")

    def stop(self) -> bool:
        """Stop reading; return whether anything was read."""
        if self._reading is not None:
            self._reading.stop()
        return self.is_reading

    async def read(self, text: str) -> str:
        """Return the message for a typed text, while the status line shows its files. Raises AppError."""
        self.refuse_if_reading()
        view, before = self._view, self._view.status.doing
        self._reading = reading = FileReading(lambda name: view.call_later(self._show, name))
        view.screen.refresh_bindings()
        as_text, self._refused = text == self._refused, text
        try:
            message = await message_of(text, view.session, reading, as_text=as_text)
        except Interrupted:
            # References without a file may not have been listed yet.
            self._refused = ""
            raise AppError("Reading was stopped; the prompt was not sent.") from None
        finally:
            reading.stop()
            self._reading = None
            if view.status.doing == reading.line:
                view.status.do(before)
            # The program may end meanwhile.
            if view.is_attached:
                view.screen.refresh_bindings()
        self._refused = ""
        return message

    def _show(self, name: str) -> None:
        if self._reading is not None:
            self._reading.line = f"reading {printable(name)}"
            self._view.status.do(self._reading.line)

    # Counting

    def typed(self) -> None:
        """Discard the last token count; count again after a while."""
        if self._timer is not None:
            self._timer.stop()
        if self._view.session.forget_count():
            self._view.hint.about("")
        self._timer = self._view.set_timer(COUNT_AFTER_S, self._count_in_background)

    def _count_in_background(self) -> None:
        self._view.run_worker(self._count(), group="count", exclusive=True)

    async def _count(self) -> None:
        text = self._view.prompt.whole
        if len(text) < _COUNTED_CHARS and "@" not in text and not self._view.prompt.pastes:
            return
        try:
            message = await message_of(text, self._view.session, FileReading(), as_text=True)
        except AppError:
            # The same error is shown when the prompt is sent.
            return
        self._view.session.count(message)
