"""Read the files in typed text to make messages, and count their tokens."""

from __future__ import annotations

from asyncio import wrap_future
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Event

from textual.timer import Timer

from app.conversations.attached import compose, split
from app.core.errors import AppError, Interrupted
from app.core.printable import printable, storable
from app.core.program import in_background
from app.settings.layers import picture_limits
from app.ui.chat.view import ChatView
from app.ui.composer.included_files import include_files, without_file
from app.ui.key_names import key

COUNT_AFTER_S = 1.0
"""Seconds without a key before a prompt is counted."""
_COUNTED_CHARS = 400
"""Length from which a prompt is counted, in characters; a prompt with a file is always counted."""


class MessageReader:
    """Makes messages of typed text, one at a time because reading a document takes seconds; counts their tokens."""

    def __init__(self, view: ChatView) -> None:
        self._view = view
        self._reading: Event | None = None
        """Stops reading when it is set; None while nothing is read."""
        self._line = ""
        """Text for the status line."""
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
            self._reading.set()
        return self.is_reading

    async def read(self, text: str) -> str:
        """Return the message for a typed text, while the status line shows its files. Raises AppError."""
        self.refuse_if_reading()
        view, before = self._view, self._view.status.doing
        self._reading = stop = Event()
        view.screen.refresh_bindings()
        as_text, self._refused = text == self._refused, text
        try:
            message = await self._message(text, stop, partial(view.call_later, self._show), as_text=as_text)
        except Interrupted:
            # References without a file may not have been listed yet.
            self._refused = ""
            raise AppError("Reading was stopped; the prompt was not sent.") from None
        finally:
            stop.set()
            self._reading = None
            if view.status.doing == self._line:
                view.status.do(before)
            # The program may end meanwhile.
            if view.is_attached:
                view.screen.refresh_bindings()
        self._refused = ""
        return message

    async def _message(
        self, text: str, stop: Event, show: Callable[[str], object] = lambda _: None, *, as_text: bool
    ) -> str:
        """Return the message for a typed text, with its files; store its pictures. `show` receives their names.

        Raises:
            AppError: A file cannot be included, or a reference names no file and is not sent `as_text`.
            Interrupted: The reading was stopped.
        """
        # A terminal may paste half a surrogate pair, which neither a model nor a disk accepts.
        question, pastes = split(storable(text).strip())
        if "@" not in question:
            return compose(question, pastes)
        session = self._view.session
        limits = picture_limits(session.settings)
        work = in_background(lambda: include_files(question, pastes, Path(), limits, stop, show), "included files")
        message, pictures = await wrap_future(work)
        if stop.is_set():
            # Text and pictures are read to their end.
            raise Interrupted
        if not as_text and (names := without_file(message)):
            sends = key("prompt.send", "enter")
            raise AppError(f"No file matches {', '.join(names)}.", f"Press {sends} again to send it as text.")
        for picture in pictures:
            session.library.add_picture(picture)
        return message

    def _show(self, name: str) -> None:
        if self._reading is not None:
            self._line = f"reading {printable(name)}"
            self._view.status.do(self._line)

    # Counting

    def typed(self) -> None:
        """Discard the last token count; count again after a while."""
        if self._timer is not None:
            self._timer.stop()
        if self._view.session.forget_count():
            self._view.hint.about(None)
        self._timer = self._view.set_timer(COUNT_AFTER_S, self._count_in_background)

    def _count_in_background(self) -> None:
        self._view.run_worker(self._count(), group="count", exclusive=True)

    async def _count(self) -> None:
        text = self._view.prompt.whole
        if len(text) < _COUNTED_CHARS and "@" not in text and not self._view.prompt.pastes:
            return
        try:
            message = await self._message(text, Event(), as_text=True)
        except AppError:
            # The same error is shown when the prompt is sent.
            return
        self._view.session.count(message)
