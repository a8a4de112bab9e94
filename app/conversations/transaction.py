"""A change of the store's file as a whole or not at all."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """One of a writer: another one is waited for at its beginning, not in its middle."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield db
        db.execute("COMMIT")
    finally:
        if db.in_transaction:
            # SQLite has often rolled back by itself when a disk refuses.
            with suppress(sqlite3.Error):
                db.execute("ROLLBACK")
