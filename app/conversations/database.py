"""The store's SQLite database: connection, transactions and errors; tables, migrations and full-text index."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any

from app.core.errors import StoreError

BUSY_S = 2.0
"""Seconds to wait for another Tandem that is writing."""
# SQLite quotes invalid bytes of a schema in its message, which Python cannot decode.
ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""Errors of SQLite."""
_PERMISSIONS_FIX = "Check the folder and its permissions."


class ConversationGoneError(StoreError):
    """A conversation or message is not in the store."""

    def __init__(self) -> None:
        super().__init__("This conversation or message no longer exists.", "Start a new conversation.")


class Database:
    """A SQLite connection for the thread that opened it; `file` is None in memory."""

    def __init__(self, connection: sqlite3.Connection, file: Path | None = None) -> None:
        self.connection = connection
        self.file = file

    def close(self) -> None:
        """Move the write-ahead log into the file, then close the connection."""
        checkpoint(self.connection)
        self.connection.close()

    def rows(self, sql: str, values: Sequence[object] | Mapping[str, object] = ()) -> Sequence[Any]:
        """Return all rows of a query. Raises StoreError."""
        with store_errors(self.file):
            return self.connection.execute(sql, values).fetchall()

    @contextmanager
    def write(self, *, durable: bool = False) -> Iterator[sqlite3.Connection]:
        """Run a transaction; a durable transaction waits for the disk, so that it survives a power cut.

        Raises StoreError; then nothing was written.
        """
        with store_errors(self.file):
            self.connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            with transaction(self.connection):
                yield self.connection


def connect(file: Path, mode: str, timeout: float = BUSY_S) -> sqlite3.Connection:
    """Open an existing file; `mode` is "ro" or "rw"."""
    return sqlite3.connect(f"{file.absolute().as_uri()}?mode={mode}", timeout=timeout, isolation_level=None, uri=True)


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Commit or roll back the whole block; wait for another writer first."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    finally:
        if db.in_transaction:
            with suppress(sqlite3.Error):
                db.execute("ROLLBACK")


def checkpoint(db: sqlite3.Connection) -> None:
    """Move the write-ahead log into the file; ignore a full disk and pages that another Tandem still reads."""
    with suppress(sqlite3.Error):
        db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()


def is_damage(error: Exception) -> bool:
    """Return whether SQLite reports a broken file; a broken full-text index is a plain constraint error."""
    is_broken_index = getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_CONSTRAINT
    is_broken_file = _code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
    return isinstance(error, UnicodeDecodeError) or is_broken_index or is_broken_file


def is_busy(error: Exception) -> bool:
    """Return whether another connection holds the file."""
    return _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def damage_mark(file: Path) -> Path:
    """Return the path of the mark that makes the next start check every page of a file."""
    return file.with_name(file.name + "-suspect")


@contextmanager
def store_errors(file: Path | None) -> Iterator[None]:
    """Convert errors of SQLite and of the disk to `StoreError`; mark a damaged file."""
    try:
        yield
    except ERRORS as error:
        if file is not None and is_damage(error):
            with suppress(OSError):
                damage_mark(file).touch()
        raise _store_error(error, file) from error
    except OSError as error:
        text = f"Conversations cannot be saved in {file}: {error.strerror or error}."
        raise StoreError(text, _PERMISSIONS_FIX) from error


def _store_error(error: Exception, file: Path | None) -> StoreError:
    place = file or "memory"
    if is_damage(error):
        return StoreError(f"The conversations in {place} are damaged.", "Restart Tandem; it opens the latest backup.")
    if is_busy(error):
        return StoreError("Another Tandem is writing the conversations.", "Try again when it is done.")
    if _code(error) == sqlite3.SQLITE_FULL:
        return StoreError("The disk is full, so messages are not saved.", "Free some space.")
    if _code(error) in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return StoreError(f"{place} cannot be written.", _PERMISSIONS_FIX)
    text = f"The conversations in {place} cannot be read or written: {error}."
    return StoreError(text, "Check the disk and its free space.")


def _code(error: Exception) -> int:
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


# Tables, migrations and the full-text index

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
        # "Tand" identifies the file for the `file` command.
        "PRAGMA application_id = 0x54616E64",
    ),
)
"""The statements that lead to each schema version."""

# Older versions of Tandem ignore these tables, so they need no schema version.
_PENDING_INPUT = """
    CREATE TABLE IF NOT EXISTS unsent (
        writer TEXT PRIMARY KEY,
        text TEXT NOT NULL,
        updated REAL NOT NULL
    ) WITHOUT ROWID
"""
"""The unsent prompt of an empty conversation."""
_PICTURES_TABLE = """
    CREATE TABLE IF NOT EXISTS pictures (
        digest TEXT PRIMARY KEY,
        type TEXT NOT NULL,
        width INTEGER NOT NULL,
        height INTEGER NOT NULL,
        stored REAL NOT NULL,
        data BLOB NOT NULL
    )
"""
"""The pictures that messages and unsent prompts refer to by digest."""
_TAGS_TABLE = """
    CREATE TABLE IF NOT EXISTS tags (
        conversation INTEGER NOT NULL REFERENCES conversations(id) ON DELETE CASCADE,
        tag TEXT NOT NULL,
        PRIMARY KEY (conversation, tag)
    ) WITHOUT ROWID
"""
_REMOVE_OLD = """
    INSERT INTO found(found, rowid, text, reasoning)
    SELECT 'delete', old.id, old.text, old.reasoning WHERE old.state <> 'writing';
"""
_ADD_NEW = """
    INSERT INTO found(rowid, text, reasoning)
    SELECT new.id, new.text, new.reasoning WHERE new.state <> 'writing';
"""
# A running answer changes every second; it is indexed when it ends.
_INDEX_STATEMENTS = {
    "found_messages": "CREATE VIEW found_messages AS SELECT id, text, reasoning FROM messages WHERE state <> 'writing'",
    "found": "CREATE VIRTUAL TABLE found USING "
    "fts5(text, reasoning, content='found_messages', content_rowid='id', tokenize='trigram')",
    "found_insert": f"CREATE TRIGGER found_insert AFTER INSERT ON messages BEGIN {_ADD_NEW} END",
    "found_delete": f"CREATE TRIGGER found_delete AFTER DELETE ON messages BEGIN {_REMOVE_OLD} END",
    "found_update": "CREATE TRIGGER found_update AFTER UPDATE OF text, reasoning, state ON messages "
    f"BEGIN {_REMOVE_OLD} {_ADD_NEW} END",
}
"""The full-text index, the indexed messages, and the triggers that update it."""
# Earlier versions stored a running answer in pieces; a killed process may have left some.
_JOIN_PIECES = """
    UPDATE messages SET
        text = text || (SELECT coalesce(group_concat(text, ''), '') FROM
            (SELECT text FROM journal WHERE message = messages.id AND NOT reasoning ORDER BY seq)),
        reasoning = reasoning || (SELECT coalesce(group_concat(text, ''), '') FROM
            (SELECT text FROM journal WHERE message = messages.id AND reasoning ORDER BY seq))
    WHERE id IN (SELECT message FROM journal)
"""


def prepare(db: sqlite3.Connection) -> None:
    """Create or migrate all tables and the full-text index.

    Raises StoreError for a file from a newer Tandem, or sqlite3.Error; then nothing was changed.
    """
    if missing := MIGRATIONS[schema_version(db) :]:
        with transaction(db):
            for statement in chain.from_iterable(missing):
                db.execute(statement)
            db.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
    for table in (_PENDING_INPUT, _PICTURES_TABLE, _TAGS_TABLE):
        db.execute(table)
    stored = dict(db.execute("SELECT name, sql FROM sqlite_master WHERE name LIKE 'found%'"))
    if any(stored.get(name) != sql for name, sql in _INDEX_STATEMENTS.items()):
        with transaction(db):
            drop_index(db)
            for statement in _INDEX_STATEMENTS.values():
                db.execute(statement)
            db.execute("INSERT INTO found(found) VALUES ('rebuild')")
    if db.execute("SELECT 1 FROM journal LIMIT 1").fetchone():
        with transaction(db):
            db.execute(_JOIN_PIECES)
            db.execute("DELETE FROM journal")


def schema_version(db: sqlite3.Connection) -> int:
    """Return the schema version; 0 for a new file. Raises StoreError for a newer version."""
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version > len(MIGRATIONS):
        raise StoreError(
            f"The conversations were written by a newer Tandem (schema {version}, this one knows {len(MIGRATIONS)}).",
            "Update Tandem; nothing was changed.",
        )
    return int(version)


def drop_index(db: sqlite3.Connection) -> None:
    """Remove the full-text index and its triggers; `prepare` builds them again."""
    for name in ("insert", "delete", "update"):
        db.execute(f"DROP TRIGGER IF EXISTS found_{name}")
    db.execute("DROP TABLE IF EXISTS found")
    db.execute("DROP VIEW IF EXISTS found_messages")
