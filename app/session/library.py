"""All stored conversations, and which of them is open."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from app.conversations.disk import Disk, StoreOpener
from app.conversations.tree import Document, Summary
from app.core.errors import StoreError

if TYPE_CHECKING:
    from app.conversations.search import Hit
    from app.conversations.store import Store

_T = TypeVar("_T")


class Library:
    """List, search, rename, pin and delete conversations.

    No method raises for a disk error: it is reported through `say`.

    Args:
        open_store: Opens the store; None keeps conversations in memory only.
    """

    def __init__(self, open_store: StoreOpener | None = None) -> None:
        self.has_history = open_store is not None
        """Whether conversations outlive this run, so that a list is worth showing."""
        self.disk = Disk(open_store or _in_memory, self._lose)
        self.conversation: int | None = None
        """Id of the open conversation; None until its first prompt."""
        self._deleted: list[int] = []

    @property
    def say(self) -> Callable[[str], object]:
        """Receives one line about the disk for the user."""
        return self.disk.say

    @say.setter
    def say(self, say: Callable[[str], object]) -> None:
        self.disk.say = say

    @property
    def is_open(self) -> bool:
        return self.disk.store is not None and self.has_history

    @property
    def unwritten(self) -> StoreError | None:
        """Why the last messages were not saved, known after closing."""
        return self.disk.unwritten

    def open_store(self) -> None:
        """Open the store in about a millisecond; fall back to memory."""
        self.disk.open()
        self._deleted = list(self.with_store(lambda store: store.deleted()) or ())

    def maintain(self) -> None:
        """Retry a failed disk and back up the file; call every few seconds."""
        self.disk.maintain()

    def summaries(self) -> tuple[Summary, ...]:
        """Return all conversations, pinned first, then by last message."""
        return self.with_store(lambda store: store.summaries()) or ()

    def summary(self, conversation: int | None) -> Summary | None:
        return next((summary for summary in self.summaries() if summary.id == conversation), None)

    def search(self, query: str) -> tuple[Hit, ...]:
        """Return conversations that contain every word; a running answer is found once it ends."""
        return self.with_store(lambda store: store.search(query)) or ()

    def stats(self, message: int) -> Document:
        """Return the numbers stored with an answer; empty without any."""
        return self.with_store(lambda store: store.stats(message)) or {}

    def rename(self, conversation: int, title: str) -> str:
        """Set the title, or with "" the one made from the first prompt; return it."""
        return self.do(lambda store: store.rename(conversation, title), conversation) or ""

    def pin(self, conversation: int, pinned: bool) -> None:
        self.do(lambda store: store.pin(conversation, pinned), conversation)

    def delete(self, conversation: int) -> None:
        """Delete a conversation; `undelete` restores it."""
        self.do(lambda store: store.delete(conversation), conversation)
        self._deleted.append(conversation)

    def undelete(self) -> int | None:
        """Restore the last deleted conversation, also of an earlier run; return its id."""
        if not self._deleted:
            return None
        conversation = self._deleted.pop()
        self.do(lambda store: store.undelete(conversation), conversation)
        return conversation

    @property
    def can_undelete(self) -> bool:
        return bool(self._deleted)

    @property
    def is_deleted(self) -> bool:
        """Return whether the open conversation was deleted."""
        return self.conversation in self._deleted

    def set_aside(self, text: str) -> None:
        """Store typed text that was replaced, to be found among past prompts."""
        self.do(lambda store: store.set_aside(text, self.conversation))

    def with_conversation(self, action: Callable[[Store, int], _T]) -> _T | None:
        """Run a store action on the open conversation; None before its first prompt or on a disk error."""
        number = self.conversation
        return None if number is None else self.do(lambda store: action(store, number))

    def with_store(self, action: Callable[[Store], _T]) -> _T | None:
        """Run a store action that concerns no single conversation; None on a disk error."""
        return self.disk.do(action, None)

    def do(self, action: Callable[[Store], _T], conversation: int | None = None) -> _T | None:
        """Run a store action on a conversation, by default the open one; None on a disk error."""
        return self.disk.do(action, self.conversation if conversation is None else conversation)

    def _lose(self, conversation: int | None) -> None:
        if conversation is None or conversation == self.conversation:
            self.conversation = None


def _in_memory() -> Store:
    from app.conversations.store import Store

    store = Store.in_memory()
    store.notice = ""
    return store
