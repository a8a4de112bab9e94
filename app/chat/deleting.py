"""Conversations that were deleted: kept for a day, brought back, then removed for good, a few messages at a time."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from app.chat.database import Database
from app.chat.rows import change

UNDO_S = 24 * 3600.0
"""How long a deleted conversation can be brought back; after that its messages go a few at a time."""
_PURGED_AT_ONCE = 32
"""Messages; taking one out of the index takes as long as putting it in."""
_DOOMED = "deleted <= ? AND id NOT IN (SELECT conversation FROM arriving)"
"""Of a conversation: that it was deleted so long ago that it goes for good, and is not one on its way in."""


def bring_back(db: sqlite3.Connection, conversation: int, now: float, also: str = "", *values: object) -> None:
    """Have it in the list again, deleted or not; the caller holds the transaction.

    Args:
        db: The store's.
        conversation: Which.
        now: Seconds since 1970.
        also: What to change of it besides: `column = ?, ...`, and `values` for the question marks.

    Raises:
        StoreError: It is gone, or some of its messages may be gone already.
    """
    columns = f"deleted = NULL, {also}" if also else "deleted = NULL"
    there = "id = ? AND (deleted IS NULL OR deleted > ?)"
    change(db, f"UPDATE conversations SET {columns} WHERE {there}", *values, conversation, now - UNDO_S)


class Deleted:
    """The conversations of a store that are in no list.

    Args:
        database: The store's.
        now: Seconds since 1970.
        give_up_lost: Lets go of what was on its way in when its Tandem ended; that is purged like what was deleted.
    """

    def __init__(self, database: Database, now: Callable[[], float], give_up_lost: Callable[[], None]) -> None:
        self._database = database
        self._now = now
        self._give_up_lost = give_up_lost

    def numbers(self) -> tuple[int, ...]:
        """Those that can still be brought back, the one that was deleted last at the end."""
        since = self._now() - UNDO_S
        rows = self._database.rows("SELECT id FROM conversations WHERE deleted > ? ORDER BY deleted, id", (since,))
        return tuple(number for (number,) in rows)

    def bring_back(self, conversation: int, also: str = "", *values: object) -> None:
        """As the function `bring_back`, in a transaction of its own."""
        with self._database.write() as db:
            bring_back(db, conversation, self._now(), also, *values)

    def purge(self, older_than_s: float) -> int:
        """Remove for good what was deleted longer ago than this; returns how many conversations."""
        before = self._now() - older_than_s
        [(n,)] = self._database.rows(f"SELECT count(*) FROM conversations WHERE {_DOOMED}", (before,))
        while self.purge_some(older_than_s):
            pass
        return int(n)

    def purge_some(self, older_than_s: float = UNDO_S) -> bool:
        """Remove a few messages: all at once would keep the screen and every other Tandem waiting for seconds.

        Returns:
            Whether there are more.
        """
        self._give_up_lost()
        doomed, since = f"SELECT id FROM conversations WHERE {_DOOMED}", (self._now() - older_than_s,)
        if not self._database.rows(doomed, since):
            return False
        some = f"SELECT id FROM messages WHERE conversation IN ({doomed}) LIMIT {_PURGED_AT_ONCE}"
        with self._database.write() as db:
            db.execute(f"DELETE FROM messages WHERE id IN ({some})", since)
            db.execute(
                f"DELETE FROM conversations WHERE {_DOOMED} "
                "AND NOT EXISTS (SELECT 1 FROM messages WHERE conversation = conversations.id)",
                since,
            )
            return db.execute(doomed, since).fetchone() is not None
