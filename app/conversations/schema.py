"""The tables of the conversation store, their migrations, and the full-text index."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from itertools import chain

from app.conversations.database import transaction
from app.core.errors import StoreError

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
        # A parent is older than its replies, so no cycle can be stored.
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
        # "Tand", which names the file's program to the `file` command.
        "PRAGMA application_id = 0x54616E64",
    ),
)
"""The statements that lead to each schema version."""

# Older versions of Tandem ignore this table, so it needs no schema version.
_PENDING_INPUT = """
    CREATE TABLE IF NOT EXISTS unsent (
        writer TEXT PRIMARY KEY,
        text TEXT NOT NULL,
        updated REAL NOT NULL
    ) WITHOUT ROWID
"""
"""The unsent prompt of an empty conversation."""
_INDEX = (
    "CREATE VIRTUAL TABLE found USING fts5(text, reasoning, content='messages', content_rowid='id', tokenize='trigram')"
)
_REMOVE_OLD = "INSERT INTO found(found, rowid, text, reasoning) VALUES ('delete', old.id, old.text, old.reasoning);"
_ADD_NEW = "INSERT INTO found(rowid, text, reasoning) VALUES (new.id, new.text, new.reasoning);"
_TRIGGERS = {
    "found_insert": f"AFTER INSERT ON messages BEGIN {_ADD_NEW} END",
    "found_delete": f"AFTER DELETE ON messages BEGIN {_REMOVE_OLD} END",
    "found_update": f"AFTER UPDATE OF text, reasoning ON messages BEGIN {_REMOVE_OLD} {_ADD_NEW} END",
}


def prepare(db: sqlite3.Connection) -> None:
    """Create or migrate all tables and the full-text index.

    Raises StoreError for a file from a newer Tandem, or sqlite3.Error; nothing was changed then.
    """
    if missing := MIGRATIONS[schema_version(db) :]:
        with transaction(db):
            for statement in chain.from_iterable(missing):
                db.execute(statement)
            db.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
    db.execute(_PENDING_INPUT)
    names = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE name LIKE 'found%'")}
    if not names >= {"found", *_TRIGGERS}:
        with transaction(db):
            drop_index(db)
            db.execute(_INDEX)
            db.execute("INSERT INTO found(found) VALUES ('rebuild')")
            for name, definition in _TRIGGERS.items():
                db.execute(f"CREATE TRIGGER {name} {definition}")


def schema_version(db: sqlite3.Connection) -> int:
    """Return the schema version; 0 for a new file. Raises StoreError for a newer one."""
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version > len(MIGRATIONS):
        raise StoreError(
            f"The conversations were written by a newer Tandem (schema {version}, this one knows {len(MIGRATIONS)}).",
            "Update Tandem; nothing was changed.",
        )
    return int(version)


def drop_index(db: sqlite3.Connection) -> None:
    """Remove the full-text index and its triggers; `prepare` builds them again."""
    for name in _TRIGGERS:
        db.execute(f"DROP TRIGGER IF EXISTS {name}")
    db.execute("DROP TABLE IF EXISTS found")
