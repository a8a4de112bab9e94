"""What can still be read of a damaged database: row by row, so that a broken one takes no other with it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from app.chat.attached import question_of
from app.chat.message import Role
from app.chat.rows import decoded, to_text
from app.chat.titles import make_title
from app.chat.transaction import transaction

_BROKEN = (sqlite3.Error, UnicodeDecodeError)
_UNFIT = (sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_ERROR)
"""What is said of a row that no table takes; the last of a column that there is not."""
_MESSAGES = (
    "SELECT id, conversation FROM messages ORDER BY id",
    "SELECT id, conversation FROM messages ORDER BY id DESC",
    "SELECT id, conversation FROM messages INDEXED BY messages_of_conversation ORDER BY conversation, id",
    "SELECT id, conversation FROM messages INDEXED BY messages_of_conversation ORDER BY conversation DESC, id DESC",
)
"""Each ends where it comes to a broken page; what lies behind that one, another may reach."""
_CONVERSATIONS = ("SELECT id FROM conversations ORDER BY id", "SELECT id FROM conversations ORDER BY id DESC")
_PIECES = (
    "SELECT message, seq, reasoning, text FROM journal ORDER BY message, seq",
    "SELECT message, seq, reasoning, text FROM journal ORDER BY message DESC, seq DESC",
)
_UNSENT = ("SELECT writer, text, updated FROM unsent",)
_SET_ASIDE = ("SELECT text, updated, conversation FROM set_aside",)


def salvage(damaged: sqlite3.Connection, db: sqlite3.Connection) -> int:
    """Copy what can be read, under the numbers that it has.

    Args:
        damaged: A database of today's schema, or one that is beyond reading.
        db: A prepared, empty one.

    Returns:
        How many conversations.

    Raises:
        sqlite3.Error: The other one is refused; nothing is in it then.
    """
    with suppress(*_BROKEN):
        # Without that SQLite reads nothing of a file that was cut short.
        damaged.execute("PRAGMA writable_schema = ON")
    damaged.text_factory = decoded
    places = dict(_found(damaged, _MESSAGES))
    named = {number for (number,) in _found(damaged, _CONVERSATIONS)} | set(places.values())
    numbers = {number for number in named if isinstance(number, int)}
    with transaction(db):
        lost = [number for number in sorted(numbers) if not _copy(damaged, db, "conversations", number)]
        # What was said in them may be there.
        db.executemany("INSERT INTO conversations(id, created, updated) VALUES (?, 0, 0)", zip(lost))
        for message in sorted(places):
            _copy(damaged, db, "messages", message)
        _insert(db, "INSERT OR IGNORE INTO journal(message, seq, reasoning, text)", _found(damaged, _PIECES))
        _insert(db, "INSERT OR IGNORE INTO unsent(writer, text, updated)", _found(damaged, _UNSENT))
        for number in lost:
            _describe(db, number)
        there = {number for (number,) in db.execute("SELECT id FROM conversations")}
        # Nothing else may be left of the conversation that it was typed in.
        aside = ((*row, number if number in there else None) for *row, number in _found(damaged, _SET_ASIDE))
        _insert(db, "INSERT OR IGNORE INTO set_aside(text, updated, conversation)", aside)
        (n,) = db.execute("SELECT count(*) FROM conversations WHERE deleted IS NULL").fetchone()
    return int(n)


def _found(db: sqlite3.Connection, queries: Sequence[str]) -> set[tuple[Any, ...]]:
    """What any of the queries comes to before it comes to a broken page."""
    found: set[tuple[Any, ...]] = set()
    for query in queries:
        with suppress(*_BROKEN):
            found.update(db.execute(query))
    return found


def _copy(damaged: sqlite3.Connection, db: sqlite3.Connection, table: str, number: int) -> bool:
    """Copy a row; returns whether it could be read, and be meant."""
    try:
        rows = damaged.execute(f"SELECT * FROM {table} WHERE id = ?", (number,))
        columns = ", ".join(name for name, *_ in rows.description)
        row = rows.fetchone()
    except _BROKEN:
        return False
    return row is not None and _insert(db, f"INSERT INTO {table}({columns})", [row]) == 1


def _insert(db: sqlite3.Connection, into: str, rows: Iterable[Sequence[Any]]) -> int:
    """Insert rows but for those that the tables do not take; returns how many. Raises where the disk does not."""
    n = 0
    for row in rows:
        try:
            db.execute(f"{into} VALUES ({', '.join('?' * len(row))})", row)
            n += 1
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF not in _UNFIT:
                raise
    return n


def _describe(db: sqlite3.Connection, number: int) -> None:
    """Tell what is known of a conversation whose own row is lost: the last message is the active one."""
    began, ended, leaf = db.execute(
        "SELECT min(created), max(created), max(id) FROM messages WHERE conversation = ?", (number,)
    ).fetchone()
    if leaf is None:
        db.execute("DELETE FROM conversations WHERE id = ?", (number,))
        return
    first = db.execute(
        "SELECT text FROM messages WHERE conversation = ? AND role = ? ORDER BY id", (number, Role.USER.value)
    ).fetchone()
    title = make_title(question_of(to_text(first[0]))) if first is not None else ""
    db.execute(
        "UPDATE conversations SET title = ?, created = ?, updated = ?, leaf = ? WHERE id = ?",
        (title, began, ended, leaf, number),
    )
