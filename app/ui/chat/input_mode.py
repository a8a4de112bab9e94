"""The input line: text that is not sent yet, and its other uses, such as editing a message."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial

from app.conversations.attached import joined, joined_as_it_stands, question_of
from app.ui.chat.base import ChatBase
from app.ui.commands.table import COMMANDS
from app.ui.key_names import key
from app.ui.transcript.message_view import MessageView

STORE_AFTER_S = 1.0
"""Typed text is stored after at most this long."""

Done = Callable[[str, Callable[[], None]], Awaitable[None]]
"""Receives the text, and what reopens the mode with it if it cannot be taken, now or later."""


@dataclass(frozen=True, slots=True)
class _Mode:
    """A use of the input line other than a prompt.

    Attributes:
        hint: Shown while it lasts.
        typed: What was typed before; it comes back.
        done: Receives the text.
        message_view: The message that is edited; None for something else.
        refusal: Returns why the text cannot be taken now; "" if it can.
        is_prompt: Whether the text is a prompt, with files and pastes.
        original: The message before it was edited.
    """

    hint: str
    typed: str
    done: Done
    message_view: MessageView | None = None
    refusal: Callable[[], str] = str
    is_prompt: bool = False
    original: str = ""

    def with_typed(self, text: str) -> str:
        """Return what was typed before, and below it a text, which may be empty."""
        return (joined if self.is_prompt else joined_as_it_stands)(self.typed, text) if text else self.typed


class InputMode:
    """Mode of the input line.

    Args:
        screen: The chat.
    """

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
        """Everything typed and not sent, including a prompt that waits and an unfinished edit."""
        session, mode = self._screen.session, self._mode
        typed = self._screen.prompt.whole if mode is None else mode.with_typed(self._edited)
        sent = session.preparing if session.waiting is None else COMMANDS.as_typed(session.waiting)
        return joined(sent, typed) if sent else typed

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
        self._screen.session.conversation.set_draft(self.pending_text)

    def take_from_line(self, prompt: str) -> None:
        """Clear the line if an unanswered prompt stands there that is asked in another way."""
        line = self._screen.prompt
        if COMMANDS.as_said(line.text.strip()) == question_of(prompt):
            line.clear()

    # Modes

    def begin(
        self,
        hint: str,
        text: str,
        done: Done,
        message_view: MessageView | None = None,
        refusal: Callable[[], str] = str,
        *,
        is_prompt: bool = False,
    ) -> None:
        """Use the line for something else.

        Args:
            hint: Shown meanwhile.
            text: What is to be changed.
            done: Receives the text.
            message_view: The message that is edited; None for something else.
            refusal: Returns why the text cannot be taken now; "" if it can.
            is_prompt: Whether the text is a prompt, with files and pastes.
        """
        self.leave()
        self._screen.hint.forget()
        self._begin(_Mode(hint, self._screen.prompt.whole, done, message_view, refusal, is_prompt), text)

    def _begin(self, mode: _Mode, text: str) -> None:
        screen, self._mode = self._screen, mode
        if mode.message_view is not None:
            mode.message_view.add_class("-changed")
        screen.prompt.as_it_stands = not mode.is_prompt
        screen.prompt.put(text)
        if not mode.original:
            self._mode = replace(mode, original=screen.prompt.whole)
        screen.prompt.focus()
        screen.hint.keep(mode.hint)
        screen.refresh_bindings()

    def leave(self) -> None:
        """Leave the mode; an edit that is not sent can be found among past prompts."""
        mode, edited = self._mode, self._edited
        self.end()
        if mode is not None and edited:
            self._screen.prompt.past.set_aside(replace(mode, typed="").with_typed(edited))
            searches = key("prompt.search", "ctrl+s")
            told = f"What it was changed into is kept: {searches} finds it."
            # An answer or a mode that begins now removes earlier hints.
            self._screen.call_later(self._screen.hint.say, told)

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
        """Take the text that was sent in this mode."""
        mode = self._mode
        assert mode is not None
        if refusal := mode.refusal():
            self._screen.prompt.restore(text)
            self._screen.hint.say(refusal)
            return
        self.end()
        await mode.done(text, partial(self._reopen, mode, text))

    def _reopen(self, mode: _Mode, text: str) -> None:
        if self._mode is None:
            self._begin(replace(mode, typed=self._screen.prompt.whole), text)
        else:
            self.give_back(replace(mode, typed="").with_typed(text))

    # Prompts that come back

    def give_back(self, prompt: str) -> None:
        """Put a prompt that was not sent in front of what was typed since."""
        if self._mode is not None:
            self._mode = replace(self._mode, typed=_in_front(prompt, self._mode.typed))
        else:
            self._screen.prompt.put(_in_front(prompt, self._screen.prompt.whole))

    def give_back_message(self, message: str) -> None:
        """Put a message that waited for the models in front of what was typed since."""
        self.give_back(COMMANDS.as_typed(message))

    def give_back_unanswered(self, message: str) -> None:
        """Put an unanswered message back, unless the user already types the next prompt."""
        if self._mode is None:
            self._screen.prompt.give_back(message)
        elif not self._mode.typed.strip():
            self._mode = replace(self._mode, typed=COMMANDS.as_typed(message))


def _in_front(prompt: str, typed: str) -> str:
    return joined(prompt, typed) if typed.strip() else prompt
