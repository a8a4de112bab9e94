"""The input line: unsent text, messages made of typed text, and other uses, such as editing a message."""

from __future__ import annotations

from asyncio import wrap_future
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial, reduce
from pathlib import Path
from threading import Event

from textual.timer import Timer

from app.conversations.attached import compose, joined, question_of, split, with_marks
from app.core.errors import AppError, Interrupted
from app.core.printable import printable, storable
from app.core.program import in_background
from app.settings.layers import picture_limits
from app.ui.chat.view import ChatView
from app.ui.commands import COMMANDS
from app.ui.composer.included_files import include_files, without_file
from app.ui.key_names import key
from app.ui.transcript.message import MessageItem

STORE_AFTER_S = 1.0
"""Longest time until typed text is stored."""
COUNT_AFTER_S = 1.0
"""Seconds without a key before a prompt is counted."""
_COUNTED_CHARS = 400
"""Length from which a prompt is counted, in characters; a prompt with a file is always counted."""


@dataclass(frozen=True, slots=True)
class _Mode:
    """A use of the input line other than a prompt; `typed` is restored when it ends."""

    typed: str
    original: str
    done: Callable[[str], Awaitable[None]]
    message: MessageItem | None


class InputLine:
    """Reads and stores typed text, one message at a time, because reading a document takes seconds."""

    def __init__(self, view: ChatView) -> None:
        self._view = view
        self._mode: _Mode | None = None
        self._stores_soon = False
        self._sending = ""
        """The text whose files are being read before it is sent."""
        self._reading: Event | None = None
        """Stops reading when it is set; None while nothing is read."""
        self._activity = ""
        """Text for the status line while files are read."""
        self._refused = ""
        """The last refused text; the second time, its references without a file are sent as text."""
        self._timer: Timer | None = None

    # Unsent text

    @property
    def pending_text(self) -> str:
        """Return everything typed and not sent, including an unfinished edit."""
        mode = self._mode
        texts = [self._sending, *([self._view.prompt.whole] if mode is None else [mode.typed, self._edited])]
        return reduce(joined, filter(None, texts)) if any(texts) else ""

    @property
    def _edited(self) -> str:
        mode, text = self._mode, self._view.prompt.whole
        changed = mode is not None and mode.message is not None and text.strip() != mode.original.strip()
        return text if changed else ""

    def store_soon(self) -> None:
        """Store the typed text within a second."""
        if not self._stores_soon:
            self._stores_soon = True
            self._view.set_timer(STORE_AFTER_S, self._store)

    def _store(self) -> None:
        self._stores_soon = False
        self._view.session.conversation.set_unsent_text(self.pending_text)

    def give_back(self, prompt: str, *, unless_typed: bool = False) -> None:
        """Put an unanswered prompt before the text typed since, or only where nothing was typed."""
        mode, text = self._mode, COMMANDS.as_typed(prompt)
        typed = self._view.prompt.whole if mode is None else mode.typed
        if typed.strip():
            if unless_typed:
                return
            text = joined(text, typed)
        if mode is None:
            self._view.prompt.put(text)
        else:
            self._mode = replace(mode, typed=text)

    def take_from_line(self, prompt: str) -> None:
        """Clear the line if it contains an unanswered prompt that is asked in another way."""
        line = self._view.prompt
        if line.text.strip() == question_of(prompt) or with_marks(line.whole) == with_marks(prompt):
            line.clear()

    # Messages

    @property
    def is_reading(self) -> bool:
        """Return whether the files of a prompt are being read."""
        return self._reading is not None

    def refuse_if_reading(self) -> None:
        """Raise AppError while the files of a prompt are being read."""
        if self.is_reading:
            raise AppError(f"The files of the last prompt are being read; {key('chat.stop')} stops it.")

    def stop_reading(self) -> bool:
        """Stop reading; return whether anything was read."""
        if self._reading is not None:
            self._reading.set()
        return self.is_reading

    async def take(self, text: str) -> str:
        """Return the message for a sent text, which counts as unsent while its files are read. Raises AppError."""
        self.refuse_if_reading()
        self._sending = text
        try:
            message = await self.read(text)
        finally:
            self._sending = ""
        self.store_soon()
        return message

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
            if view.status.doing == self._activity:
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
            sends = key("prompt.send")
            raise AppError(f"No file matches {', '.join(names)}.", f"Press {sends} again to send it as text.")
        for picture in pictures:
            session.library.add_picture(picture)
        return message

    def _show(self, name: str) -> None:
        if self._reading is not None:
            self._activity = f"reading {printable(name)}"
            self._view.status.do(self._activity)

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

    # Modes

    @property
    def is_borrowed(self) -> bool:
        """Return whether the line is used for something other than a prompt."""
        return self._mode is not None

    def begin(
        self,
        hint: str,
        text: str,
        done: Callable[[str], Awaitable[None]],
        message: MessageItem | None = None,
        *,
        is_prompt: bool = False,
    ) -> None:
        """Borrow the input line, for example to edit a message.

        Args:
            hint: Text shown meanwhile.
            done: Receives the text; raises AppError to leave it in the line.

        Raises:
            AppError: The files of a prompt are being read, and the prompt would return to the line if that failed.
        """
        self.refuse_if_reading()
        self._view.hint.forget()
        self.leave()
        view, typed = self._view, self._view.prompt.whole
        if message is not None:
            view.messages.show_edited(message, True)
        view.prompt.as_it_stands = not is_prompt
        view.prompt.put(text)
        self._mode = _Mode(typed, view.prompt.whole, done, message)
        view.prompt.focus()
        view.hint.keep(hint)
        view.screen.refresh_bindings()

    def leave(self) -> None:
        """Leave the mode; an unsent edit can be found among past prompts."""
        edited = self._edited
        self.end()
        if edited:
            self._view.prompt.past.add(edited)
            self._view.hint.say(f"The changed text is kept: {key('prompt.search')} finds it.")

    def end(self) -> None:
        """Leave the mode without keeping its text."""
        mode, self._mode = self._mode, None
        if mode is None:
            return
        view = self._view
        if mode.message is not None:
            view.messages.show_edited(mode.message, False)
        view.prompt.as_it_stands = False
        view.prompt.put(mode.typed)
        view.hint.keep(None)
        view.screen.refresh_bindings()

    async def send(self, text: str) -> None:
        """Handle the text sent in this mode; raises AppError to stay in it."""
        mode = self._mode
        assert mode is not None
        await mode.done(text)
        if self._mode is mode:
            self.end()
