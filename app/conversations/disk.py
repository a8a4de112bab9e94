"""The conversation store as the screen uses it: a disk that refuses is a sentence, and the chat goes on in memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING, TypeVar

from app.core.errors import StoreError

if TYPE_CHECKING:
    from app.conversations.store import Store

StoreOpener = Callable[[], "Store"]
"""Opens the store; may raise `StoreError`."""

_T = TypeVar("_T")
SAVED = "All messages are saved again."
"""Said when a disk that refused no longer does."""
_BACKUP_S = 3600.0
"""Seconds between two checks whether a backup is due."""
_RETRY_S = 5.0
"""Seconds until Tandem tries a failed disk again."""


class Disk:
    """Opens the store and lets it do things; no method raises for what a disk can do.

    Args:
        open_store: Opens the store, called by `open`; None keeps nothing.
        lose: Told the conversation that another Tandem has removed; None for all of them.
        clock: Seconds, monotonic.
    """

    def __init__(
        self,
        open_store: StoreOpener | None,
        lose: Callable[[int | None], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.store: Store | None = None
        self.say: Callable[[str], object] = lambda text: None
        """Told what the user should know, as one line."""
        self.unwritten: StoreError | None = None
        """What became of what was said, where it did not get into the file."""
        self._opener = open_store
        self._lose = lose
        self._clock = clock
        self._tried = 0.0
        self._backed_up: float | None = None

    @property
    def keeps(self) -> bool:
        """Whether there is a store, or will be."""
        return self._opener is not None

    def open(self) -> None:
        """Open the store; takes about a millisecond. One that cannot be opened is one in memory."""
        if self._opener is None or self.store is not None:
            return
        try:
            self.store = self._opener()
        except StoreError as error:
            self.store = _memory()
            self.tell(error, self.store.notice)
        else:
            if self.store.notice:
                self.say(self.store.notice)
        self._tried = self._clock()

    def close(self) -> None:
        """Let go of the store; what the disk refuses to the end is told by `unwritten`."""
        store, self.store, self._opener = self.store, None, None
        if store is not None:
            try:
                store.close()
            except StoreError as error:
                self.unwritten = error

    def tidy(self) -> bool:
        """Remove for good a little of what was deleted long ago; returns whether there is more."""
        if self.store is not None:
            with suppress(StoreError):
                return self.store.tidy()
        return False

    def maintain(self) -> None:
        """Retry a failed disk, and back up the file; called every few seconds."""
        self.try_again()
        store = self.store
        is_due = self._backed_up is None or self._clock() - self._backed_up >= _BACKUP_S
        if store is not None and store.file is not None and is_due:
            from app.conversations.backup import back_up_daily

            self._backed_up = self._clock()
            Thread(target=back_up_daily, args=(store.file,), daemon=True).start()

    def try_again(self) -> None:
        """Go back to the disk if it refused, takes what was said since, and was not tried a moment ago."""
        store = self.store
        if store is None or store.on_disk or self._clock() - self._tried < _RETRY_S:
            return
        with suppress(StoreError):
            if store.return_to_disk():
                self.say(store.notice or SAVED)
        self._tried = self._clock()

    def do(self, action: Callable[[Store], _T], conversation: int | None) -> _T | None:
        """Let the store do something; what a disk refuses is said and done in memory, until the disk takes it.

        Args:
            action: What to do; done twice if the first time fails.
            conversation: Which one it concerns; None for none or for all.

        Returns:
            What came of it; None if nothing did.
        """
        self.try_again()
        store = self.store
        if store is None:
            return None
        try:
            return action(store)
        except StoreError as error:
            is_here = _holds(store, conversation)
            is_left = is_here and store.on_disk
            if is_left:
                self._tried = self._clock()
                if not store.go_on_in_memory():
                    self._lose(None)
            self.tell(error, _until_saved() if is_left else "")
            if not (is_here and _holds(store, conversation)):
                self._lose(conversation)
        with suppress(StoreError):
            return action(store)
        return None

    def tell(self, error: StoreError, more: str = "") -> None:
        """Say what went wrong."""
        self.say(" ".join(filter(None, (error.message, error.hint, more))))


def _holds(store: Store, conversation: int | None) -> bool:
    """Whether a conversation is where it was: then it is the disk, and not another Tandem that has removed it."""
    try:
        return conversation is None or store.holds(conversation)
    except StoreError:
        return True


def _until_saved() -> str:
    from app.conversations.store import UNTIL_SAVED

    return UNTIL_SAVED


def _memory() -> Store:
    from app.conversations.store import Store

    return Store.in_memory()
