"""Changes made in memory while the disk refuses them, until they can be written to the file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from random import randrange
from typing import Any

from app.conversations.database import Database, sentences
from app.conversations.inserting import insert_aside
from app.conversations.opening import SOON_S, open_file, write_copy
from app.core import regular_file
from app.core.errors import StoreError

_APART = {"conversations": (1 << 16, 1 << 20), "messages": (1 << 20, 1 << 32)}
"""Smallest and largest gap between the file's ids and new ones; another Tandem may add rows to the file."""
_EVERY = (("INSERT", "new"), ("UPDATE", "new"), ("DELETE", "old"))
_TRACKED = (
    ("conversations", "conversation", "id", _EVERY),
    ("messages", "conversation", "conversation", _EVERY),
    ("messages", "removed", "id", _EVERY[2:]),
    ("unsent", "unsent", "writer", _EVERY),
    ("set_aside", "set_aside", "text", _EVERY),
)
"""Tables, the kind of change, the column that identifies it, and the events."""


class Outage:
    """Track changes to an in-memory database that replaces a file.

    Args:
        database: The database in memory.
        file: The file that could not be written.
        had_file: Whether the database in memory is a copy of that file.
    """

    def __init__(self, database: Database, file: Path, *, had_file: bool) -> None:
        self._database = database
        self._file = file
        self._had_file = had_file
        _set_ids_apart(database.connection)
        _track(database.connection)

    @property
    def has_changes(self) -> bool:
        """Whether the database in memory has changes that the file lacks."""
        return self._database.connection.execute("SELECT 1 FROM changed LIMIT 1").fetchone() is not None

    def end(self) -> str:
        """Write every change to the file, or none, and return to it.

        A removed file is written again in full; a damaged file is replaced by its backup first.

        Returns:
            A sentence for the user if the file was damaged, else "".

        Raises:
            StoreError: The disk still refuses, or another database is in the file's place.
        """
        memory = self._database.connection
        if self._had_file and regular_file.is_gone(self._file):
            write_copy(memory, self._file)
        opened, notice = open_file(self._file, wait_s=SOON_S)
        try:
            with sentences(self._file), opened.write_soon(SOON_S, durable=True) as db:
                _write_changes(memory, db, self._file)
        except BaseException:
            opened.close()
            raise
        self._database.replace(opened.connection, self._file)
        return notice


def _set_ids_apart(db: sqlite3.Connection) -> None:
    for table, (least, most) in _APART.items():
        step = (randrange(least, most), table)
        if not db.execute("UPDATE sqlite_sequence SET seq = seq + ? WHERE name = ?", step).rowcount:
            db.execute("INSERT INTO sqlite_sequence(seq, name) VALUES (?, ?)", step)


def _track(db: sqlite3.Connection) -> None:
    db.execute("CREATE TEMP TABLE changed(kind, key, PRIMARY KEY (kind, key))")
    insert = "INSERT OR IGNORE INTO changed VALUES"
    for table, kind, column, events in _TRACKED:
        for event, row in events:
            db.execute(
                f"CREATE TEMP TRIGGER changed_{kind}_{table}_{event} AFTER {event} ON main.{table} "
                f"BEGIN {insert} ('{kind}', {row}.{column}); END"
            )
    db.execute(
        f"CREATE TEMP TRIGGER changed_journal AFTER INSERT ON main.journal "
        f"BEGIN {insert} ('conversation', (SELECT conversation FROM messages WHERE id = new.message)); END"
    )


def _write_changes(memory: sqlite3.Connection, db: sqlite3.Connection, file: Path) -> None:
    """Write the changes in memory to the file; the caller holds its transaction."""

    def changed(kind: str) -> list[Any]:
        return [key for (key,) in memory.execute("SELECT key FROM changed WHERE kind = ?", (kind,))]

    for conversation in changed("conversation"):
        _write_conversation(memory, db, conversation, file)
    db.executemany("DELETE FROM messages WHERE id = ?", ((message,) for message in changed("removed")))
    for writer in changed("unsent"):
        db.execute("DELETE FROM unsent WHERE writer = ?", (writer,))
        _upsert(memory, db, "unsent", "writer = ?", writer, ("writer",))
    for text in changed("set_aside"):
        db.execute("DELETE FROM set_aside WHERE text = ?", (text,))
        for row in memory.execute("SELECT text, updated, conversation FROM set_aside WHERE text = ?", (text,)):
            insert_aside(db, *row)


def _write_conversation(memory: sqlite3.Connection, db: sqlite3.Connection, number: int, file: Path) -> None:
    """Copy a conversation from memory to the file; keep messages of another Tandem."""
    begun = "SELECT created FROM conversations WHERE id = ?"
    mine, theirs = (each.execute(begun, (number,)).fetchone() for each in (memory, db))
    if mine is None:
        db.execute("DELETE FROM conversations WHERE id = ?", (number,))
        return
    if theirs not in (None, mine):
        raise StoreError(f"Other conversations have taken the place of {file}.", "Put the file back.")
    _upsert(memory, db, "conversations", "id = ?", number, ("id",))
    _upsert(memory, db, "messages", "conversation = ?", number, ("id",))
    pieces = "message IN (SELECT id FROM messages WHERE conversation = ?)"
    there = memory.execute("SELECT id FROM messages WHERE conversation = ?", (number,))
    db.executemany("DELETE FROM journal WHERE message = ?", there)
    _upsert(memory, db, "journal", pieces, number, ("message", "seq"))


def _upsert(
    memory: sqlite3.Connection, db: sqlite3.Connection, table: str, which: str, value: object, key: Iterable[str]
) -> None:
    """Write the rows that differ."""
    query = f"SELECT * FROM {table} WHERE {which}"
    found = memory.execute(query, (value,))
    columns = [name for name, *_ in found.description]
    # Not REPLACE, which would remove a row without telling the triggers of the index.
    changes = ", ".join(f"{name} = excluded.{name}" for name in columns if name not in key)
    known = set(db.execute(query, (value,)))
    db.executemany(
        f"INSERT INTO {table}({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))}) "
        f"ON CONFLICT({', '.join(key)}) DO UPDATE SET {changes}",
        [row for row in found if row not in known],
    )
