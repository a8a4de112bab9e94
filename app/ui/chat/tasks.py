"""What the prompt's line is used for besides prompts: a message that is changed, a title."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from app.chat.attached import joined, joined_as_it_stands
from app.ui.chat.bare_screen import BareChatScreen
from app.ui.messages.speech import Speech


@dataclass(frozen=True, slots=True)
class _Task:
    """Something else than a prompt that the prompt's line is used for.

    Attributes:
        hint: What is said while it lasts.
        unsent: What was typed before; it comes back.
        done: Told the text that was sent; says whether it takes it. If not, it has said why.
        speech: The message that it is about, or None.
        refusal: Why it cannot be sent now; empty if it can.
        is_prompt: Whether what is written is one.
        before: The message as it stood in the line at first.
    """

    hint: str
    unsent: str
    done: Callable[[str], Awaitable[bool]]
    speech: Speech | None = None
    refusal: Callable[[], str] = str
    is_prompt: bool = False
    before: str = ""


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
        task = self._task
        if task is None or task.speech is None:
            return task.unsent if task is not None else None
        changed = self._screen.prompt.whole
        if changed.strip() == task.before.strip():
            return task.unsent
        return (joined if task.is_prompt else joined_as_it_stands)(task.unsent, changed)

    def begin(
        self,
        hint: str,
        text: str,
        done: Callable[[str], Awaitable[bool]],
        speech: Speech | None = None,
        refusal: Callable[[], str] = str,
        *,
        is_prompt: bool = False,
    ) -> None:
        """Let the user write something that is no prompt.

        Args:
            hint: What is said meanwhile.
            text: What is to be changed.
            done: Told the text that was sent; says whether it takes it. If not, it has said why.
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
        """Leave it as it was, with what was typed before."""
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
        self.leave()
        if not await task.done(text) and self._task is None:
            self._begin(replace(task, unsent=self._screen.prompt.whole), text)
