"""All conversations, as the screen lists, names, pins and deletes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from app.conversations.disk import Disk, StoreOpener
from app.conversations.tree import Document, Summary
from app.core.errors import StoreError

if TYPE_CHECKING:
    from app.conversations.search import Hit


class Shelf:
    """The conversations of a store. Without a store there are none, and nothing is said.

    Args:
        open_store: Opens the store, called by `open_store`; None keeps nothing.
    """

    def __init__(self, open_store: StoreOpener | None = None) -> None:
        self._disk = Disk(open_store, self._lose)
        self._deleted: list[int] = []

    @property
    def say(self) -> Callable[[str], object]:
        """Told what the user should know, as one line."""
        return self._disk.say

    @say.setter
    def say(self, say: Callable[[str], object]) -> None:
        self._disk.say = say

    @property
    def keeps(self) -> bool:
        """Whether there is a store, or will be."""
        return self._disk.keeps

    @property
    def is_open(self) -> bool:
        return self._disk.store is not None

    @property
    def is_on_disk(self) -> bool:
        """Whether what is said outlives this process."""
        return self._disk.store is not None and self._disk.store.on_disk

    @property
    def unwritten(self) -> StoreError | None:
        """What became of what was said, where it did not get into the file in the end."""
        return self._disk.unwritten

    def maintain(self) -> None:
        """Retry a failed disk, and back up the file; called every few seconds."""
        self._disk.maintain()

    def open_store(self) -> None:
        """Open the store; takes about a millisecond. One that cannot be opened is one in memory."""
        self._disk.open()
        self._look_for_deleted()

    def tidy(self) -> bool:
        """Remove for good a little of what was deleted long ago, when there is nothing else to do.

        Returns:
            Whether there is more.
        """
        more = self._disk.tidy()
        self._look_for_deleted()
        return more

    def summaries(self) -> tuple[Summary, ...]:
        """All conversations, pinned ones first, then by when something was last said."""
        return self._disk.do(lambda store: store.summaries(), None) or ()

    def summary(self, conversation: int | None) -> Summary | None:
        """The line of one conversation; None if it is not in the list."""
        return next((summary for summary in self.summaries() if summary.id == conversation), None)

    def search(self, query: str) -> tuple[Hit, ...]:
        """Conversations that hold every word; an answer on its way is found when it has ended."""
        return self._disk.do(lambda store: store.search(query), None) or ()

    def stats(self, message: int) -> Document:
        """The numbers that were kept of an answer; empty if there are none."""
        return self._disk.do(lambda store: store.stats(message), None) or {}

    def rename(self, conversation: int, title: str) -> str:
        """Give it a title, or with an empty one the title that is made from what was said; returns it."""
        return self._disk.do(lambda store: store.rename(conversation, title), conversation) or ""

    def pin(self, conversation: int, pinned: bool) -> None:
        self._disk.do(lambda store: store.pin(conversation, pinned), conversation)

    def delete(self, conversation: int) -> None:
        """Take one off the list; `undelete` brings it back."""
        self._disk.do(lambda store: store.delete(conversation), conversation)
        self._deleted.append(conversation)

    def undelete(self) -> int | None:
        """Bring back what was deleted last, in an earlier run perhaps; returns its id, or None if there is nothing."""
        if not self._deleted:
            return None
        conversation = self._deleted[-1]
        self._disk.do(lambda store: store.undelete(conversation), conversation)
        return self._deleted.pop()

    @property
    def can_undelete(self) -> bool:
        return bool(self._deleted)

    def _is_back(self, conversation: int) -> None:
        """It is in the list again without `undelete`, by what somebody did in it or another Tandem."""
        self._deleted = [each for each in self._deleted if each != conversation]

    def _look_for_deleted(self) -> None:
        self._deleted = list(self._disk.do(lambda store: store.deleted(), None) or ())

    def _lose(self, conversation: int | None) -> None:
        """A conversation is no longer there, or none of them is."""
