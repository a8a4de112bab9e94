"""A database in memory that takes changes while the disk refuses them, and writes them to the file later."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from random import randrange

from app.conversations.database import Database
from app.conversations.opening import open_file

_BUSY_S = 0.05
"""Seconds to wait for another Tandem while the screen waits."""
_ID_GAPS = {"conversations": (1 << 16, 1 << 20), "messages": (1 << 20, 1 << 32)}
"""Smallest and largest gap between the file's ids and new ones: another Tandem may add rows to the file."""
_TRACKED = (
    ("conversations", "conversation", "id", ("INSERT", "UPDATE", "DELETE")),
    ("messages", "conversation", "conversation", ("INSERT", "UPDATE")),
    ("unsent", "unsent", "writer", ("INSERT", "UPDATE", "DELETE")),
)
"""Tables, the kind of change, the column that identifies it, and the events."""


class MemoryFallback:
    """Track the changes to a database in memory that stands in for a file.

    Args:
        database: The database in memory.
        file: The file that could not be written.
    """

    def __init__(self, database: Database, file: Path) -> None:
        self._database = database
        self._file = file
        for table, (least, most) in _ID_GAPS.items():
            _skip_ids(database.connection, table, randrange(least, most))
        _track_changes(database.connection)

    @property
    def has_changes(self) -> bool:
        """Return whether the file lacks some change."""
        return bool(self._database.rows("SELECT 1 FROM changed LIMIT 1"))

    def write_back(self) -> str:
        """Write every change to the file, or none, and continue with the file.

        Returns:
            A notice if the file was damaged and its backup was opened, else "".

        Raises:
            StoreError: The disk still refuses.
        """
        opened, notice = open_file(self._file, _BUSY_S)
        try:
            with opened.write(durable=True, wait_s=_BUSY_S) as db:
                self._write_changes(db)
        except BaseException:
            opened.close()
            raise
        self._database.replace(opened)
        return notice

    def _write_changes(self, db: sqlite3.Connection) -> None:
        memory = self._database.connection
        for kind, key in memory.execute("SELECT kind, key FROM changed").fetchall():
            if kind == "unsent":
                db.execute("DELETE FROM unsent WHERE writer = ?", (key,))
                _upsert(memory, db, "unsent", "writer", "writer = ?", key)
            elif memory.execute("SELECT 1 FROM conversations WHERE id = ?", (key,)).fetchone() is None:
                db.execute("DELETE FROM conversations WHERE id = ?", (key,))
            else:
                _upsert(memory, db, "conversations", "id", "id = ?", key)
                _upsert(memory, db, "messages", "id", "conversation = ?", key)
                pieces = "message IN (SELECT id FROM messages WHERE conversation = ?)"
                ended = memory.execute("SELECT id FROM messages WHERE conversation = ?", (key,))
                db.executemany("DELETE FROM journal WHERE message = ?", ended)
                _upsert(memory, db, "journal", "message, seq", pieces, key)


def _skip_ids(db: sqlite3.Connection, table: str, n: int) -> None:
    if not db.execute("UPDATE sqlite_sequence SET seq = seq + ? WHERE name = ?", (n, table)).rowcount:
        db.execute("INSERT INTO sqlite_sequence(seq, name) VALUES (?, ?)", (n, table))


def _track_changes(db: sqlite3.Connection) -> None:
    db.execute("CREATE TEMP TABLE changed(kind, key, PRIMARY KEY (kind, key))")
    for table, kind, column, events in _TRACKED:
        for event in events:
            row = "old" if event == "DELETE" else "new"
            db.execute(
                f"CREATE TEMP TRIGGER changed_{table}_{event} AFTER {event} ON main.{table} "
                f"BEGIN INSERT OR IGNORE INTO changed VALUES ('{kind}', {row}.{column}); END"
            )
    db.execute(
        "CREATE TEMP TRIGGER changed_journal AFTER INSERT ON main.journal BEGIN INSERT OR IGNORE INTO changed "
        "VALUES ('conversation', (SELECT conversation FROM messages WHERE id = new.message)); END"
    )


def _upsert(
    memory: sqlite3.Connection, db: sqlite3.Connection, table: str, key: str, which: str, value: object
) -> None:
    """Write the rows that differ."""
    query = f"SELECT * FROM {table} WHERE {which}"
    found = memory.execute(query, (value,))
    columns = [name for name, *_ in found.description]
    # Not REPLACE, which would remove a row without telling the triggers of the index.
    changes = ", ".join(f"{name} = excluded.{name}" for name in columns if name not in key.split(", "))
    known = set(db.execute(query, (value,)))
    db.executemany(
        f"INSERT INTO {table}({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))}) "
        f"ON CONFLICT({key}) DO UPDATE SET {changes}",
        [row for row in found if row not in known],
    )
