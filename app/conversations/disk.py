"""Access to the store for the session: a disk error is a notice, and the text stays on the screen."""

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
_REPEAT_S = 10.0
"""Seconds for which the same error is not reported again."""


class Disk:
    """Open the store and run actions on it; no method raises for a disk error.

    Args:
        open_store: Opens the store, called by `open`.
        lose: Called with a conversation that is no longer in the store.
        clock: Seconds, monotonic.

    Attributes:
        store: None until `open`.
        say: Receives one line for the user.
        unwritten: Why the last messages were not saved, known after `close`.
    """

    def __init__(
        self,
        open_store: StoreOpener,
        lose: Callable[[int | None], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.store: Store | None = None
        self.say: Callable[[str], object] = lambda text: None
        self.unwritten: StoreError | None = None
        self._opener: StoreOpener | None = open_store
        self._lose = lose
        self._clock = clock
        self._backed_up: float | None = None
        self._reported = "", 0.0
        """The last error and its time."""

    def open(self) -> None:
        """Open the store, or one in memory; takes about a millisecond."""
        if self._opener is None or self.store is not None:
            return
        from app.conversations.store import Store

        try:
            self.store = self._opener()
        except StoreError as error:
            self.store = Store.in_memory()
            self.say(f"{error.sentences} {self.store.notice}")
        else:
            if self.store.notice:
                self.say(self.store.notice)

    def close(self) -> None:
        """Close the store."""
        store, self.store, self._opener = self.store, None, None
        if store is not None:
            try:
                store.close()
            except StoreError as error:
                self.unwritten = error

    def maintain(self) -> None:
        """Retry what the disk refused, and back up the file; called every few seconds."""
        store = self.store
        if store is None:
            return
        if store.retry():
            self.say(SAVED)
        is_due = self._backed_up is None or self._clock() - self._backed_up >= _BACKUP_S
        if store.file is not None and is_due:
            from app.conversations.backup import back_up_daily

            self._backed_up = self._clock()
            Thread(target=back_up_daily, args=(store.file,), daemon=True).start()

    def do(self, action: Callable[[Store], _T], conversation: int | None) -> _T | None:
        """Run an action and return its result; report an error and return None.

        An action on a conversation that is no longer in the store is done again after `lose`.

        Args:
            action: What to do.
            conversation: The conversation that it concerns; None for none or all.
        """
        if self.store is None:
            return None
        from app.conversations.database import ConversationGoneError

        try:
            return action(self.store)
        except ConversationGoneError as error:
            self.report(error)
            self._lose(conversation)
        except StoreError as error:
            self.report(error)
            return None
        with suppress(StoreError):
            return action(self.store)
        return None

    def report(self, error: StoreError) -> None:
        """Report an error, unless it was just reported."""
        text, now = error.sentences, self._clock()
        last, at = self._reported
        if text != last or now - at >= _REPEAT_S:
            self._reported = text, now
            self.say(text)
