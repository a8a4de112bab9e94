"""Access to the store for the session: a disk error is a notice, and the chat goes on in memory."""

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
"""Notice for a disk that works again."""
_BACKUP_S = 3600.0
"""Seconds between two checks whether a backup is due."""
_RETRY_S = 5.0
"""Seconds until Tandem tries a failed disk again."""


class Disk:
    """Open the store and run actions on it; no method raises for a disk error.

    Args:
        open_store: Opens the store, called by `open`; None keeps nothing.
        lose: Called with a conversation that is no longer in the store; None for all of them.
        clock: Seconds, monotonic.

    Attributes:
        store: None until `open`.
        say: Receives one line for the user.
        unwritten: Why the last messages were not saved, known after `close`.
    """

    def __init__(
        self,
        open_store: StoreOpener | None,
        lose: Callable[[int | None], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.store: Store | None = None
        self.say: Callable[[str], object] = lambda text: None
        self.unwritten: StoreError | None = None
        self._opener = open_store
        self._lose = lose
        self._clock = clock
        self._tried = 0.0
        self._backed_up: float | None = None

    @property
    def keeps(self) -> bool:
        """Return whether there is a store, or will be."""
        return self._opener is not None

    def open(self) -> None:
        """Open the store, or one in memory; takes about a millisecond."""
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
        """Close the store."""
        store, self.store, self._opener = self.store, None, None
        if store is not None:
            try:
                store.close()
            except StoreError as error:
                self.unwritten = error

    def tidy(self) -> bool:
        """Remove a few long-deleted messages; returns whether there are more."""
        if self.store is not None:
            with suppress(StoreError):
                return self.store.tidy()
        return False

    def maintain(self) -> None:
        """Retry a failed disk, and back up the file; called every few seconds."""
        self._return_to_disk()
        store = self.store
        is_due = self._backed_up is None or self._clock() - self._backed_up >= _BACKUP_S
        if store is not None and store.file is not None and is_due:
            from app.conversations.backup import back_up_daily

            self._backed_up = self._clock()
            Thread(target=back_up_daily, args=(store.file,), daemon=True).start()

    def do(self, action: Callable[[Store], _T], conversation: int | None) -> _T | None:
        """Run an action; after a disk error, in memory until the disk works again.

        Args:
            action: What to do; done twice if the first time fails.
            conversation: Which one it concerns; None for none or for all.

        Returns:
            The action's result; None if it failed.
        """
        self._return_to_disk()
        store = self.store
        if store is None:
            return None
        from app.conversations.database import ConversationGoneError

        try:
            return action(store)
        except ConversationGoneError as error:
            self.tell(error)
            self._lose(conversation)
        except StoreError as error:
            was_on_disk = store.on_disk
            if was_on_disk:
                self._tried = self._clock()
                if not store.continue_in_memory():
                    self._lose(None)
            self.tell(error, _until_saved() if was_on_disk else "")
        with suppress(StoreError):
            return action(store)
        return None

    def tell(self, error: StoreError, more: str = "") -> None:
        """Report an error to the user."""
        self.say(" ".join(filter(None, (error.message, error.hint, more))))

    def _return_to_disk(self) -> None:
        store = self.store
        if store is None or store.on_disk or self._clock() - self._tried < _RETRY_S:
            return
        with suppress(StoreError):
            if store.return_to_disk():
                self.say(store.notice or SAVED)
        self._tried = self._clock()


def _until_saved() -> str:
    from app.conversations.store import UNTIL_SAVED

    return UNTIL_SAVED


def _memory() -> Store:
    from app.conversations.store import Store

    return Store.in_memory()
