"""The input line: unsent text, and other uses, such as editing a message."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import reduce

from app.conversations.attached import joined, question_of, with_marks
from app.ui.chat.message_reader import MessageReader
from app.ui.chat.view import ChatView
from app.ui.commands import COMMANDS
from app.ui.key_names import key
from app.ui.transcript.message import MessageItem

STORE_AFTER_S = 1.0
"""Longest time until typed text is stored."""


@dataclass(frozen=True, slots=True)
class _Mode:
    """A use of the input line other than a prompt; `typed` is restored when it ends."""

    typed: str
    original: str
    done: Callable[[str], Awaitable[None]]
    message: MessageItem | None


class InputMode:
    """Mode of the input line.

    Attributes:
        sending: The text whose files are being read before it is sent.
    """

    def __init__(self, view: ChatView, reader: MessageReader) -> None:
        self._view = view
        self._reader = reader
        self._mode: _Mode | None = None
        self._stores_soon = False
        self.sending = ""

    @property
    def is_active(self) -> bool:
        """Return whether the line is used for something other than a prompt."""
        return self._mode is not None

    # Unsent text

    @property
    def pending_text(self) -> str:
        """Return everything typed and not sent, including an unfinished edit."""
        mode = self._mode
        texts = [self.sending, *([self._view.prompt.whole] if mode is None else [mode.typed, self._edited])]
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

    # Modes

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
        self._reader.refuse_if_reading()
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
            self._view.hint.say(f"The changed text is kept: {key('prompt.search', 'ctrl+s')} finds it.")

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
