"""All stored conversations."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from app.conversations.message import Role
from app.conversations.state_folder import remove_orphans
from app.conversations.tree import StoredConversation, Summary
from app.core.errors import StoreError
from app.core.pictures import PictureData

if TYPE_CHECKING:
    from app.conversations.search import Hit
    from app.conversations.store import Store

StoreOpener = Callable[[], "Store"]
"""Opens the store; may raise `StoreError`."""

_T = TypeVar("_T")
_BACKUP_S = 3600.0
"""Interval between two checks whether a backup is due."""
_REPEAT_S = 10.0
"""The same error is not reported again within this time."""


class Library:
    """Opens the store; lists, searches, renames, pins and deletes conversations.

    No method raises for a disk error: `say` reports it, and the text stays on the screen.

    Args:
        open_store: Opens the store; None keeps conversations in memory only.

    Attributes:
        store: The store, between `open_store` and `close`.
        as_typed: Returns the text to type for a message, even if it looks like a command.
        has_history: Whether conversations outlive this run, so that a list is useful.
        say: Receives a line about the disk for the user.
        unwritten: Why the last messages were not saved, known after `close`.
    """

    def __init__(self, open_store: StoreOpener | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.store: Store | None = None
        self.as_typed: Callable[[str], str] = str
        self.has_history = open_store is not None
        self.say: Callable[[str], object] = lambda text: None
        self.unwritten: StoreError | None = None
        self._opener: StoreOpener | None = open_store or _in_memory
        self._clock = clock
        self._deleted_here: set[int] = set()
        self._backed_up: float | None = None
        self._reported = "", 0.0
        """The last error and its time."""

    @property
    def is_open(self) -> bool:
        return self.store is not None and self.has_history

    def open_store(self) -> None:
        """Open the store in about a millisecond; fall back to memory. A second call does nothing."""
        if self._opener is None or self.store is not None:
            return
        try:
            self.store = self._opener()
        except StoreError as error:
            self.store = _in_memory()
            self.say(f"{error.sentences} Conversations are kept in memory only, until Tandem ends.")
        if self.store.notice:
            self.say(self.store.notice)

    def state_name(self, conversation: int | None) -> str:
        """Return the name of a conversation's stored caches, or an empty text if it is only in memory."""
        is_on_disk = self.store is not None and self.store.database.file is not None
        return str(conversation or "") if is_on_disk else ""

    def close(self) -> None:
        store, self.store, self._opener = self.store, None, None
        if store is not None:
            try:
                store.close()
            except StoreError as error:
                self.unwritten = error

    def maintain(self) -> None:
        """Retry what the disk refused; back up the file and clean up stored caches daily. Call it every few seconds."""
        if self.store is None:
            return
        if self.store.retry():
            self.say("All messages are saved again.")
        file, now = self.store.database.file, self._clock()
        if file is not None and (self._backed_up is None or now - self._backed_up >= _BACKUP_S):
            from app.conversations.opening import start_daily_backup

            self._backed_up = now
            start_daily_backup(file)
            summaries = self.do(lambda store: store.summaries())
            if summaries is not None:
                remove_orphans({summary.id for summary in summaries})

    def do(self, action: Callable[[Store], _T]) -> _T | None:
        """Run a store action and return its result; report an error and return None."""
        if self.store is None:
            return None
        try:
            return action(self.store)
        except StoreError as error:
            self.report(error)
            return None

    def report(self, error: StoreError) -> None:
        """Report an error, unless it was just reported."""
        text, now = error.sentences, self._clock()
        last, at = self._reported
        if text != last or now - at >= _REPEAT_S:
            self._reported = text, now
            self.say(text)

    def add_picture(self, picture: PictureData) -> None:
        """Store a picture of a prompt."""
        self.open_store()
        self.do(lambda store: store.pictures.add(picture))

    @property
    def last_models(self) -> Mapping[str, object]:
        """Return the numbers of the last answer in the last conversation, including its models by role."""
        last = self.last
        found = self.do(lambda store: store.load(last)) if last is not None else None
        path = found.tree.path if found is not None else ()
        return next((node.stats for node in reversed(path) if node.role is Role.ASSISTANT and node.model), {})

    def load_whole(self, conversation: int) -> StoredConversation | None:
        """Return a conversation with its pictures, for a file."""
        return self.do(lambda store: store.pictures.of(store.load(conversation)))

    def pictures(self, digests: Sequence[str]) -> Mapping[str, PictureData]:
        """Return the stored pictures with these digests."""
        return self.do(lambda store: store.pictures.load(digests)) or {}

    def summaries(self) -> tuple[Summary, ...]:
        """Return all conversations, pinned first, then by last message."""
        return self.do(lambda store: store.summaries()) or ()

    @property
    def last(self) -> int | None:
        """Return the conversation with the newest message."""
        newest = max(self.summaries(), key=lambda summary: summary.updated, default=None)
        return newest.id if newest is not None else None

    def search(self, query: str) -> tuple[Hit, ...]:
        """Return conversations that contain every word; a running answer is found when it ends."""
        return self.do(lambda store: store.search(query)) or ()

    def rename(self, conversation: int, title: str) -> str:
        """Set the title and return it; an empty title restores the title made from the first prompt."""
        return self.do(lambda store: store.rename(conversation, title)) or ""

    def title(self, conversation: int | None) -> str:
        """Return the title of a conversation."""
        found = None if conversation is None else self.do(lambda store: store.title(conversation))
        return found or ""

    def pin(self, conversation: int, pinned: bool) -> None:
        self.do(lambda store: store.pin(conversation, pinned))

    def tag(self, conversation: int, added: Iterable[str], removed: Iterable[str]) -> tuple[str, ...]:
        """Add and remove tags of a conversation; return all its tags."""
        self.do(lambda store: store.tag(conversation, added, removed))
        return self.tags(conversation)

    def tags(self, conversation: int) -> tuple[str, ...]:
        return next((summary.tags for summary in self.summaries() if summary.id == conversation), ())

    def delete(self, conversation: int) -> None:
        """Delete a conversation; `undelete` restores it."""
        self.do(lambda store: store.delete(conversation))
        self._deleted_here.add(conversation)

    @property
    def deleted(self) -> tuple[int, ...]:
        """The conversations that can be restored, even from an earlier run, most recently deleted last."""
        return self.do(lambda store: store.deleted()) or ()

    def has_deleted(self, conversation: int | None) -> bool:
        """Return whether a conversation was deleted here; one that another Tandem deleted stays in use."""
        return conversation in self._deleted_here and conversation in self.deleted

    def undelete(self) -> int | None:
        """Restore the last deleted conversation; return its id."""
        last = self.deleted[-1:]
        self.do(lambda store: store.undelete(*last))
        return last[0] if last else None


def _in_memory() -> Store:
    from app.conversations.store import Store

    return Store()
