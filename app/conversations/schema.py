"""The tables of the conversation store, and how an older file becomes today's."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from app.conversations.transaction import transaction
from app.core.errors import StoreError

APPLICATION = 0x54616E64
"""Marks the file as ours in SQLite's header: "Tand"."""

MIGRATIONS: Sequence[Sequence[str]] = (
    (
        """
        CREATE TABLE conversations (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            title TEXT NOT NULL DEFAULT '',
            named INTEGER NOT NULL DEFAULT 0,
            pinned INTEGER NOT NULL DEFAULT 0,
            created REAL NOT NULL,
            updated REAL NOT NULL,
            deleted REAL,
            leaf INTEGER,
            settings TEXT NOT NULL DEFAULT '{}',
            draft TEXT NOT NULL DEFAULT ''
        )
        """,
        # A parent is older than its replies, so no circle can be stored.
        """
        CREATE TABLE messages (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            conversation INTEGER NOT NULL REFERENCES conversations(id) ON DELETE CASCADE,
            parent INTEGER CHECK (parent < id),
            role TEXT NOT NULL,
            text TEXT NOT NULL,
            reasoning TEXT NOT NULL DEFAULT '',
            state TEXT NOT NULL,
            created REAL NOT NULL,
            stats TEXT NOT NULL DEFAULT '{}',
            writer TEXT NOT NULL DEFAULT ''
        )
        """,
        "CREATE INDEX messages_of_conversation ON messages(conversation)",
        "CREATE INDEX messages_on_their_way ON messages(writer) WHERE state = 'writing'",
        """
        CREATE TABLE journal (
            message INTEGER NOT NULL REFERENCES messages(id) ON DELETE CASCADE,
            seq INTEGER NOT NULL,
            reasoning INTEGER NOT NULL,
            text TEXT NOT NULL,
            PRIMARY KEY (message, seq)
        ) WITHOUT ROWID
        """,
    ),
)
"""For each schema version the statements that lead to it."""

_UNSENT = """
    CREATE TABLE IF NOT EXISTS unsent (
        writer TEXT PRIMARY KEY,
        text TEXT NOT NULL,
        updated REAL NOT NULL
    ) WITHOUT ROWID
"""
"""What was typed where nothing was said yet, by whoever has typed it. A Tandem that does not know it can do without."""
_SET_ASIDE = """
    CREATE TABLE IF NOT EXISTS set_aside (
        text TEXT PRIMARY KEY,
        updated REAL NOT NULL,
        conversation INTEGER REFERENCES conversations(id) ON DELETE CASCADE
    ) WITHOUT ROWID
"""
"""What was typed and gave way to something else, and in which conversation; NULL where nothing was said yet.

It is found like a prompt, and goes with its conversation like one. Whoever does not know it does without."""
_ARRIVING = "CREATE TABLE IF NOT EXISTS arriving (conversation INTEGER PRIMARY KEY, writer TEXT NOT NULL)"
"""The conversations that are on their way in, and by whom."""
_OVERDUE = """
    CREATE TABLE IF NOT EXISTS overdue (
        conversation INTEGER PRIMARY KEY REFERENCES conversations(id) ON DELETE CASCADE,
        deleted REAL NOT NULL,
        since REAL NOT NULL
    )
"""
"""The conversations that were found to be deleted long enough ago: when they were, and when that was found."""

_INDEX = (
    "CREATE VIRTUAL TABLE {} USING fts5(text, reasoning, content='messages', content_rowid='id', tokenize='trigram')"
)
_FORGET = "INSERT INTO found(found, rowid, text, reasoning) VALUES ('delete', old.id, old.text, old.reasoning);"
_LEARN = "INSERT INTO found(rowid, text, reasoning) VALUES (new.id, new.text, new.reasoning);"
_TRIGGERS = {
    "found_insert": f"AFTER INSERT ON messages BEGIN {_LEARN} END",
    "found_delete": f"AFTER DELETE ON messages BEGIN {_FORGET} END",
    "found_update": f"AFTER UPDATE OF text, reasoning ON messages BEGIN {_FORGET} {_LEARN} END",
}


def migrate(db: sqlite3.Connection) -> None:
    """Bring a file to today's schema, in one transaction; another process that does the same is waited for.

    Raises:
        StoreError: The file is of a newer Tandem, or of another program.
    """
    if version_of(db) == len(MIGRATIONS):
        return
    with transaction(db):
        version = version_of(db)
        if version == 0:
            db.execute(f"PRAGMA application_id = {APPLICATION}")
        for number, statements in enumerate(MIGRATIONS[version:], version + 1):
            for statement in statements:
                db.execute(statement)
            db.execute(f"PRAGMA user_version = {number}")


def version_of(db: sqlite3.Connection) -> int:
    """The schema version of the file. Raises StoreError if it is not for this program."""
    # Of one moment: another process may be making the tables between two of these.
    begun = not db.in_transaction
    if begun:
        db.execute("BEGIN")
    try:
        (version,) = db.execute("PRAGMA user_version").fetchone()
        (application,) = db.execute("PRAGMA application_id").fetchone()
        (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    finally:
        if begun and db.in_transaction:
            db.execute("ROLLBACK")
    if application != APPLICATION and (tables or application or version):
        raise StoreError(
            "The file of the conversations is a database of another program.", "Move it away; Tandem makes its own."
        )
    if version > len(MIGRATIONS):
        raise StoreError(
            f"The conversations were written by a newer Tandem (schema {version}, this one knows {len(MIGRATIONS)}).",
            "Update Tandem; nothing was changed.",
        )
    return int(version)


def prepare_unfinished(db: sqlite3.Connection) -> None:
    """Make the places of what is typed and not said, and of what is on its way in and out."""
    db.execute(_UNSENT)
    db.execute(_SET_ASIDE)
    db.execute(_ARRIVING)
    db.execute(_OVERDUE)


def prepare_index(db: sqlite3.Connection) -> None:
    """Make the full-text index and keep it current by triggers, if this SQLite can.

    One that cannot must not leave triggers behind that fail on every message. Whoever can again finds them missing
    and builds the index anew.
    """
    present = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE name LIKE 'found%'")}
    able = _has_trigrams(db)
    if able == (present >= _TRIGGERS.keys()):
        return
    with transaction(db):
        for name in _TRIGGERS:
            db.execute(f"DROP TRIGGER IF EXISTS {name}")
        if able:
            if "found" not in present:
                db.execute(_INDEX.format("IF NOT EXISTS found"))
            db.execute("INSERT INTO found(found) VALUES ('rebuild')")
            for name, definition in _TRIGGERS.items():
                db.execute(f"CREATE TRIGGER {name} {definition}")


def drop_index(db: sqlite3.Connection) -> None:
    """Remove the full-text index and its triggers; `prepare_index` builds them again."""
    for name in _TRIGGERS:
        db.execute(f"DROP TRIGGER IF EXISTS {name}")
    db.execute("DROP TABLE IF EXISTS found")


def has_index(db: sqlite3.Connection) -> bool:
    """Whether `prepare_index` found what it needs."""
    return db.execute("SELECT 1 FROM sqlite_master WHERE name = 'found_insert'").fetchone() is not None


def _has_trigrams(db: sqlite3.Connection) -> bool:
    """Whether this SQLite has FTS5 with trigrams (3.34 or newer, and built so)."""
    try:
        db.execute("CREATE VIRTUAL TABLE temp.probe USING fts5(text, tokenize='trigram')")
        db.execute("DROP TABLE temp.probe")
    except sqlite3.OperationalError:
        return False
    return True
