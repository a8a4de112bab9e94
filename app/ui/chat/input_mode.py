"""The input line: text that is not sent yet, and its other uses, such as editing a message."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import reduce

from app.conversations.attached import joined, question_of
from app.ui.chat.base import ChatBase
from app.ui.commands import COMMANDS
from app.ui.key_names import key
from app.ui.transcript.message_view import MessageView

STORE_AFTER_S = 1.0
"""Typed text is stored after at most this long."""


@dataclass(frozen=True, slots=True)
class _Mode:
    """A use of the input line other than a prompt; `typed` comes back when it ends."""

    typed: str
    original: str
    done: Callable[[str], Awaitable[None]]
    message_view: MessageView | None


class InputMode:
    """Mode of the input line."""

    def __init__(self, screen: ChatBase) -> None:
        self._screen = screen
        self._mode: _Mode | None = None
        self._stores_soon = False

    @property
    def is_active(self) -> bool:
        """Return whether the line is used for something other than a prompt."""
        return self._mode is not None

    # Text that is not sent

    @property
    def pending_text(self) -> str:
        """Everything typed and not sent, including an unfinished edit."""
        mode = self._mode
        texts = [self._screen.prompt.whole] if mode is None else [mode.typed, self._edited]
        return reduce(joined, filter(None, texts)) if any(texts) else ""

    @property
    def _edited(self) -> str:
        """Return what a message was changed into; "" if nothing was changed."""
        mode, text = self._mode, self._screen.prompt.whole
        changed = mode is not None and mode.message_view is not None and text.strip() != mode.original.strip()
        return text if changed else ""

    def store_soon(self) -> None:
        """Store the typed text within a second."""
        if not self._stores_soon:
            self._stores_soon = True
            self._screen.set_timer(STORE_AFTER_S, self._store)

    def _store(self) -> None:
        self._stores_soon = False
        self._screen.session.conversation.set_unsent_text(self.pending_text)

    def give_back(self, prompt: str, *, unless_typed: bool = False) -> None:
        """Put a prompt that was not answered in front of what was typed since, or only where nothing was."""
        mode, text = self._mode, COMMANDS.as_typed(prompt)
        typed = self._screen.prompt.whole if mode is None else mode.typed
        if typed.strip():
            if unless_typed:
                return
            text = joined(text, typed)
        if mode is None:
            self._screen.prompt.put(text)
        else:
            self._mode = replace(mode, typed=text)

    def take_from_line(self, prompt: str) -> None:
        """Clear the line if an unanswered prompt stands there that is asked in another way."""
        line = self._screen.prompt
        if line.text.strip() == question_of(prompt):
            line.clear()

    # Modes

    def begin(
        self,
        hint: str,
        text: str,
        done: Callable[[str], Awaitable[None]],
        message_view: MessageView | None = None,
        *,
        is_prompt: bool = False,
    ) -> None:
        """Use the line for something else.

        Args:
            hint: Shown meanwhile.
            text: What is to be changed.
            done: Receives the text; raises AppError to leave it in the line.
            message_view: The message that is edited; None for something else.
            is_prompt: Whether the text is a prompt, with files and pastes.
        """
        self._screen.hint.forget()
        self.leave()
        screen, typed = self._screen, self._screen.prompt.whole
        if message_view is not None:
            message_view.add_class("-changed")
        screen.prompt.as_it_stands = not is_prompt
        screen.prompt.put(text)
        self._mode = _Mode(typed, screen.prompt.whole, done, message_view)
        screen.prompt.focus()
        screen.hint.keep(hint)
        screen.refresh_bindings()

    def leave(self) -> None:
        """Leave the mode; an edit that is not sent can be found among past prompts."""
        edited = self._edited
        self.end()
        if edited:
            self._screen.prompt.past.add(edited)
            self._screen.hint.say(f"The changed text is kept: {key('prompt.search', 'ctrl+s')} finds it.")

    def end(self) -> None:
        """Leave the mode without keeping its text."""
        mode, self._mode = self._mode, None
        if mode is None:
            return
        screen = self._screen
        if mode.message_view is not None:
            mode.message_view.remove_class("-changed")
        screen.prompt.as_it_stands = False
        screen.prompt.put(mode.typed)
        screen.hint.keep("")
        screen.refresh_bindings()

    async def send(self, text: str) -> None:
        """Take the text that was sent in this mode; raises AppError to stay in it."""
        mode = self._mode
        assert mode is not None
        await mode.done(text)
        if self._mode is mode:
            self.end()
