"""Conversations that were deleted: kept for a day and more, then removed for good, a few messages at a time.

Until that has begun they can be brought back, whatever the clock says. One that is set, as at the start of a machine
that has no clock of its own, makes a minute a year. So a conversation that is found to be a day old is only noted, and
goes a day after that: whoever sets the clock once spoils one of these days, and not the other.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable

from app.conversations.database import Database
from app.conversations.rows import LAST_SECOND, change

UNDO_S = 24 * 3600.0
"""How long a deleted conversation can be brought back at least, whatever the clock does; usually twice as long."""
GOING = -LAST_SECOND
"""When a conversation was deleted that is on its way out, or not yet in: too long ago for any clock."""
_PURGED_AT_ONCE = 32
"""Messages; taking one out of the index takes as long as putting it in."""
_DOOMED = "deleted <= ? AND id NOT IN (SELECT conversation FROM arriving)"
"""Of a conversation: that it was deleted so long ago that it goes for good, and is not one on its way in."""
_NOTED = """EXISTS (
    SELECT 1 FROM overdue WHERE conversation = conversations.id AND overdue.deleted = conversations.deleted
    AND since <= ?
)"""
"""Of a conversation: that it was found to be a day old so long ago, and not brought back since."""
_OLD = f"deleted > ? AND deleted <= ? AND NOT {_NOTED}"
"""Of a conversation: that this is to be noted. What a wrong clock has noted in the future is so anew."""


def bring_back(db: sqlite3.Connection, conversation: int, also: str = "", *values: object) -> None:
    """Have it in the list again, deleted or not; the caller holds the transaction.

    Args:
        db: The store's.
        conversation: Which.
        also: What to change of it besides: `column = ?, ...`, and `values` for the question marks.

    Raises:
        StoreError: It is gone, or some of its messages may be gone already.
    """
    columns = f"deleted = NULL, {also}" if also else "deleted = NULL"
    there = "id = ? AND (deleted IS NULL OR deleted > ?)"
    change(db, f"UPDATE conversations SET {columns} WHERE {there}", *values, conversation, GOING)


class Deleted:
    """The conversations of a store that are in no list.

    Args:
        database: The store's.
        now: Seconds since 1970.
        give_up_lost: Lets go of what was on its way in when its Tandem ended; that is purged like what was deleted.
        clock: Seconds, monotonic.
    """

    def __init__(
        self,
        database: Database,
        now: Callable[[], float],
        give_up_lost: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._now = now
        self._give_up_lost = give_up_lost
        self._clock = clock
        self._opened = now() - clock()

    def numbers(self) -> tuple[int, ...]:
        """Those that can still be brought back, the one that was deleted last at the end."""
        rows = self._database.rows("SELECT id FROM conversations WHERE deleted > ? ORDER BY deleted, id", (GOING,))
        return tuple(number for (number,) in rows)

    def bring_back(self, conversation: int, also: str = "", *values: object) -> None:
        """As the function `bring_back`, in a transaction of its own."""
        with self._database.write() as db:
            bring_back(db, conversation, also, *values)

    def purge(self, older_than_s: float) -> int:
        """Remove for good what was deleted longer ago than this; returns how many conversations."""
        before = self._now() - older_than_s
        [(n,)] = self._database.rows(f"SELECT count(*) FROM conversations WHERE {_DOOMED}", (before,))
        self._doom(_DOOMED, before)
        while self._remove_some():
            pass
        return int(n)

    def purge_some(self) -> bool:
        """Remove a few messages of what was noted a day ago, and note what surely was deleted longer ago than that.

        Returns:
            Whether there are more.
        """
        before, now = self._surely_past() - UNDO_S, self._now()
        if self._any(_OLD, GOING, before, now):
            with self._database.write() as db:
                old = f"SELECT id, deleted, ? FROM conversations WHERE {_OLD}"
                db.execute(
                    f"INSERT OR REPLACE INTO overdue(conversation, deleted, since) {old}", (now, GOING, before, now)
                )
        self._doom(_NOTED, before)
        return self._remove_some()

    def _surely_past(self) -> float:
        """A time that has come by every witness: the clock, how long this store is open, and when something was said
        last. After a long time away, which a clock that was set wrong looks like, nothing goes until then."""
        [(said,)] = self._database.rows("SELECT max(updated) FROM conversations")
        return min(self._now(), self._opened + self._clock(), said if isinstance(said, int | float) else 0.0)

    def _any(self, which: str, *values: object) -> bool:
        return bool(self._database.rows(f"SELECT 1 FROM conversations WHERE {which} LIMIT 1", values))

    def _doom(self, which: str, before: float) -> None:
        """From here on they go, whole: half a conversation does not come back."""
        which = f"deleted > ? AND {which}"
        if self._any(which, GOING, before):
            with self._database.write() as db:
                db.execute(f"UPDATE conversations SET deleted = ? WHERE {which}", (GOING, GOING, before))

    def _remove_some(self) -> bool:
        """All at once would keep the screen and every other Tandem waiting for seconds."""
        self._give_up_lost()
        if not self._any(_DOOMED, GOING):
            return False
        doomed = f"SELECT id FROM conversations WHERE {_DOOMED}"
        some = f"SELECT id FROM messages WHERE conversation IN ({doomed}) LIMIT {_PURGED_AT_ONCE}"
        with self._database.write() as db:
            db.execute(f"DELETE FROM messages WHERE id IN ({some})", (GOING,))
            db.execute(
                f"DELETE FROM conversations WHERE {_DOOMED} "
                "AND NOT EXISTS (SELECT 1 FROM messages WHERE conversation = conversations.id)",
                (GOING,),
            )
            return db.execute(doomed, (GOING,)).fetchone() is not None
