"""What the prompt's line is used for besides prompts: a message that is changed, a title."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial

from app.conversations.attached import joined, joined_as_it_stands
from app.ui.chat.bare_screen import BareChatScreen
from app.ui.commands.table import COMMANDS
from app.ui.key_names import key
from app.ui.transcript.speech import Speech

Done = Callable[[str, Callable[[], None]], Awaitable[None]]
"""Told the text that was sent, and what goes on with that text where it is not taken, now or later."""


@dataclass(frozen=True, slots=True)
class _Task:
    """Something else than a prompt that the prompt's line is used for.

    Attributes:
        hint: What is said while it lasts.
        unsent: What was typed before; it comes back.
        done: Takes what was sent, or says why not.
        speech: The message that it is about, or None.
        refusal: Why it cannot be sent now; empty if it can.
        is_prompt: Whether what is written is one.
        before: The message as it stood in the line at first.
    """

    hint: str
    unsent: str
    done: Done
    speech: Speech | None = None
    refusal: Callable[[], str] = str
    is_prompt: bool = False
    before: str = ""

    def with_unsent(self, written: str) -> str:
        """What was typed before, and below it what was written for this; the latter may be empty."""
        return (joined if self.is_prompt else joined_as_it_stands)(self.unsent, written) if written else self.unsent


class Tasks:
    """One at a time, until it is sent or left.

    Args:
        screen: The chat.
    """

    def __init__(self, screen: BareChatScreen) -> None:
        self._screen = screen
        self._task: _Task | None = None

    @property
    def has_task(self) -> bool:
        """Whether what is sent is no prompt."""
        return self._task is not None

    @property
    def unsent(self) -> str | None:
        """What was typed before the line was used for something else, and what a message was changed into meanwhile.

        None while the line is for prompts. A change is work like any other: it outlives the program, and a look into
        another conversation.
        """
        return self._task.with_unsent(self._changed) if self._task is not None else None

    @property
    def _changed(self) -> str:
        """What a message was changed into; "" where none is, or it stands as it was."""
        task, changed = self._task, self._screen.prompt.whole
        is_other = task is not None and task.speech is not None and changed.strip() != task.before.strip()
        return changed if is_other else ""

    def begin(
        self,
        hint: str,
        text: str,
        done: Done,
        speech: Speech | None = None,
        refusal: Callable[[], str] = str,
        *,
        is_prompt: bool = False,
    ) -> None:
        """Let the user write something that is no prompt.

        Args:
            hint: What is said meanwhile.
            text: What is to be changed.
            done: Takes what was sent, or says why not.
            speech: The message that it is about, or None.
            refusal: Why it cannot be sent now; empty if it can.
            is_prompt: Whether it is a prompt all the same, with files and pastes.
        """
        self.leave()
        self._screen.hint.forget()
        self._begin(_Task(hint, self._screen.prompt.whole, done, speech, refusal, is_prompt), text)

    def _begin(self, task: _Task, text: str) -> None:
        screen, self._task = self._screen, task
        if task.speech is not None:
            task.speech.add_class("-changed")
        screen.prompt.as_it_stands = not task.is_prompt
        screen.prompt.put(text)
        if not task.before:
            self._task = replace(task, before=screen.prompt.whole)
        screen.prompt.focus()
        screen.hint.keep(task.hint)
        screen.refresh_bindings()

    def leave(self) -> None:
        """Leave it as it was, with what was typed before; what it was changed into can be fetched back."""
        task, changed = self._task, self._changed
        self.end()
        if task is not None and changed:
            self._screen.prompt.past.set_aside(replace(task, unsent="").with_unsent(changed))
            # An answer that begins, or a task that takes its place, takes away what was said before it.
            searches = key("prompt.search", "ctrl+s")
            told = f"What it was changed into is kept: {searches} finds it."
            self._screen.call_later(self._screen.hint.say, told)

    def end(self) -> None:
        """Leave it, and what was written for it, which is taken care of elsewhere."""
        task, self._task = self._task, None
        if task is None:
            return
        screen = self._screen
        if task.speech is not None:
            task.speech.remove_class("-changed")
        screen.prompt.as_it_stands = False
        screen.prompt.put(task.unsent)
        screen.hint.keep("")
        screen.refresh_bindings()

    async def send(self, text: str) -> None:
        """Take what was sent, which is no prompt."""
        task = self._task
        assert task is not None
        if refusal := task.refusal():
            self._screen.prompt.restore(text)
            self._screen.hint.say(refusal)
            return
        self.end()
        await task.done(text, partial(self._reopen, task, text))

    def _reopen(self, task: _Task, text: str) -> None:
        """Go on with what was sent and not taken."""
        if self._task is None:
            self._begin(replace(task, unsent=self._screen.prompt.whole), text)
        else:
            self.give_back(replace(task, unsent="").with_unsent(text))

    def give_back(self, prompt: str) -> None:
        """Put a prompt that was not sent in front of what was typed since."""
        if self._task is not None:
            self._task = replace(self._task, unsent=_in_front(prompt, self._task.unsent))
        else:
            self._screen.prompt.put(_in_front(prompt, self._screen.prompt.whole))

    def give_back_unanswered(self, message: str) -> None:
        """Put a message that came to nothing back as it was typed, unless the user already writes the next prompt."""
        if self._task is None:
            self._screen.prompt.give_back(message)
        elif not self._task.unsent.strip():
            self._task = replace(self._task, unsent=COMMANDS.as_typed(message))


def _in_front(prompt: str, typed: str) -> str:
    return joined(prompt, typed) if typed.strip() else prompt
