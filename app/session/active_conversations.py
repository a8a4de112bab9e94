"""The conversations in memory: open, being answered, or with waiting prompts."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import reduce

from app.conversations.attached import joined
from app.conversations.tree import Document
from app.core.errors import AppError
from app.session.conversation import Conversation
from app.session.library import Library


class Mark(Enum):
    """Marks of conversations that are not open."""

    ANSWERING = "answering"
    ASKING = "asks you"
    """A tool call waits for the user's permission."""
    WAITING = "waiting"
    """A prompt is queued."""
    ANSWERED = "new answer"
    """An answer ended, and the user has not opened it yet."""


class ActiveConversations:
    """The conversations that are open, answered or waiting, and the order in which prompts were sent.

    Args:
        models: Returns the names of the loaded models by role.

    Attributes:
        answered: The conversation that is being answered, or was answered last.
    """

    def __init__(self, library: Library, models: Callable[[], Document]) -> None:
        self.library = library
        self._models = models
        self.open = self.answered = self._empty = self._new()
        self._order: list[Conversation] = []
        """The conversation of each waiting prompt, in the order of sending."""
        self._unseen: set[int] = set()
        """Conversations with an answer that ended while another conversation was open."""

    def _new(self) -> Conversation:
        return Conversation(self.library, self._models)

    @property
    def has_waiting(self) -> bool:
        """Return whether a prompt waits in any conversation."""
        return bool(self._order)

    def marks(self, running: Mark | None) -> dict[int, Mark]:
        """Return what happens in conversations that are not open, by id; `running` marks the answered one."""
        marks = dict.fromkeys(self._unseen, Mark.ANSWERED)
        marks |= {each.number: Mark.WAITING for each in self._order if each.number is not None}
        if running is not None and self.answered.number is not None:
            marks[self.answered.number] = running
        return {number: mark for number, mark in marks.items() if number != self.open.number}

    # Switching conversations

    def open_empty(self, unsent_text: str) -> None:
        """Begin an empty conversation; store `unsent_text`, the text of the input line, with the previous one."""
        self.open.leave(unsent_text)
        if self._empty.number is not None:
            self._empty = self._new()
        self.open = self._empty

    def open_stored(self, number: int, unsent_text: str) -> bool:
        """Open another conversation; return whether it exists."""
        in_use = [self.answered, *self._order]
        conversation = next((each for each in in_use if each.number == number), None)
        if conversation is None:
            conversation = self._new()
            if not conversation.load(number):
                return False
        self.open.leave(unsent_text)
        self.open = conversation
        self._unseen.discard(number)
        return True

    def ended(self) -> None:
        """Mark the answered conversation, unless it is open."""
        if self.answered is not self.open and self.answered.number is not None:
            self._unseen.add(self.answered.number)

    # Waiting prompts

    def add_prompt(self, text: str) -> None:
        """Queue a prompt in the open conversation."""
        self.open.queue(text)
        self._order.append(self.open)

    def take_back(self) -> str | None:
        """Withdraw and return the last waiting prompt of the open conversation."""
        if not self.open.queued:
            return None
        del self._order[max(at for at, each in enumerate(self._order) if each is self.open)]
        return self.open.unqueue(-1)

    def ask_next(self) -> Conversation | None:
        """Ask the prompt that has waited longest; return its conversation, or None if nothing was asked."""
        if not self._order:
            return None
        conversation = self._order[0]
        text = conversation.unqueue(0)
        try:
            conversation.ask(text)
        except AppError:
            conversation.queued = (text, *conversation.queued)
            return None
        del self._order[0]
        return conversation

    def give_up(self, conversation: Conversation) -> str:
        """Withdraw the prompts of a conversation as text for its input line; return it if the conversation is open."""
        waiting = reduce(joined, map(self.library.as_typed, conversation.queued), "")
        self._order = [each for each in self._order if each is not conversation]
        conversation.queued = ()
        if conversation is self.open:
            return waiting
        conversation.set_unsent_text(joined(waiting, conversation.unsent_text))
        return ""

    def give_up_all(self) -> str:
        """Withdraw all prompts; see `give_up`."""
        return "".join(self.give_up(conversation) for conversation in set(self._order))

    def give_up_deleted(self) -> None:
        """Withdraw the prompts of deleted conversations."""
        for conversation in set(self._order):
            if conversation is not self.open and self.library.has_deleted(conversation.number):
                self.give_up(conversation)
