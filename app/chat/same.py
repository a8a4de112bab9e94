"""A conversation of one database becomes the same in another one, under every number that it has."""

from __future__ import annotations

import sqlite3
from typing import Any

_TABLES = (
    ("conversations", ("id",), "id = ?"),
    ("messages", ("id",), "conversation = ?"),
    ("journal", ("message", "seq"), "message IN (SELECT id FROM messages WHERE conversation = ?)"),
)
"""What holds a conversation: tables, their keys, and which of their rows are of it."""


def make_same(source: sqlite3.Connection, db: sqlite3.Connection, number: int) -> None:
    """Write what differs; the caller holds the transaction.

    Args:
        source: Has the conversation as it is to be.
        db: Has it as it was, or not at all; nothing else there has one of its numbers.
        number: The conversation's.
    """
    for table, key, of_it in _TABLES:
        query = f"SELECT * FROM {table} WHERE {of_it}"
        found = source.execute(query, (number,))
        columns = [name for name, *_ in found.description]
        places = [columns.index(name) for name in key]
        wanted: set[tuple[Any, ...]] = set(found)
        there: set[tuple[Any, ...]] = set(db.execute(query, (number,)))
        kept = {tuple(row[place] for place in places) for row in wanted}
        gone = {tuple(row[place] for place in places) for row in there} - kept
        db.executemany(f"DELETE FROM {table} WHERE {' AND '.join(f'{name} = ?' for name in key)}", sorted(gone))
        new = sorted(wanted - there, key=lambda row: [row[place] for place in places])
        # Not REPLACE: that takes a row out without telling the triggers of the index, and its pieces with it.
        changes = ", ".join(f"{name} = excluded.{name}" for name in columns if name not in key)
        db.executemany(
            f"INSERT INTO {table}({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))}) "
            f"ON CONFLICT({', '.join(key)}) DO UPDATE SET {changes}",
            new,
        )
