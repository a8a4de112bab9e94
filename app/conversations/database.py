"""The store's SQLite connection: transactions, checkpoints, and SQLite errors as `StoreError`."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from app.core.errors import StoreError

BUSY_S = 2.0
"""Seconds to wait for another Tandem that is writing."""
# SQLite quotes broken bytes of a schema in its message, which Python then cannot decode.
ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""Errors of SQLite."""
_PERMISSIONS = "Check the folder and its permissions."


class ConversationGoneError(StoreError):
    """A conversation or message is not in the store."""

    def __init__(self) -> None:
        super().__init__("This conversation or message no longer exists.", "Start a new conversation.")


class Database:
    """One SQLite connection, for the thread that opened it; `file` is None in memory."""

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
        """Run a transaction; a durable one waits for the disk, so that it survives a power cut.

        Raises StoreError; nothing is written then.
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
    """Commit the block as a whole or not at all; wait for another writer at its start."""
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
    """Return whether SQLite reports a broken file; a broken full-text index is a constraint error of no kind."""
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
    """Raise errors of SQLite and of the disk as `StoreError`; mark a damaged file."""
    try:
        yield
    except ERRORS as error:
        if file is not None and is_damage(error):
            with suppress(OSError):
                damage_mark(file).touch()
        raise _store_error(error, file) from error
    except OSError as error:
        text = f"Conversations cannot be saved in {file}: {error.strerror or error}."
        raise StoreError(text, _PERMISSIONS) from error


def _store_error(error: Exception, file: Path | None) -> StoreError:
    place = file or "memory"
    if is_damage(error):
        return StoreError(f"The conversations in {place} are damaged.", "Restart Tandem; it opens the latest backup.")
    if is_busy(error):
        return StoreError("Another Tandem is writing the conversations.", "Try again when it is done.")
    if _code(error) == sqlite3.SQLITE_FULL:
        return StoreError("The disk is full, so messages are not saved.", "Free some space.")
    if _code(error) in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return StoreError(f"{place} cannot be written.", _PERMISSIONS)
    text = f"The conversations in {place} cannot be read or written: {error}."
    return StoreError(text, "Check the disk and its free space.")


def _code(error: Exception) -> int:
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF
