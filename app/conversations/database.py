"""The SQLite connection of the store: transactions, and what can go wrong as a sentence."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from app.conversations.transaction import transaction
from app.core.errors import StoreError

BUSY_S = 2.0
"""How long a writer waits for another Tandem."""
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_PRIMARY = 0xFF
_BROKEN_INDEX = sqlite3.SQLITE_CONSTRAINT
"""Without saying which one: those of the tables do."""


class Database:
    """One connection, for the thread that opened it.

    Attributes:
        connection: SQLite's.
        file: Where it is; None in memory.

    Args:
        place: What `place_of` said of the file before it was opened; None in memory.
    """

    def __init__(self, connection: sqlite3.Connection, file: Path | None, place: tuple[int, int] | None = None) -> None:
        self.connection = connection
        self.file = file
        self._place = place

    def replace(self, connection: sqlite3.Connection, file: Path | None = None) -> None:
        """Go on with another connection; without a file it is one to memory."""
        self.connection.close()
        self.connection, self.file, self._place = connection, file, place_of(file)

    def close(self) -> None:
        """Move the write-ahead log into the file, then close the connection."""
        if self.file is not None:
            with suppress(sqlite3.Error):
                checkpoint(self.connection)
        self.connection.close()

    def rows(self, sql: str, values: Sequence[object] | Mapping[str, object] = ()) -> Sequence[Any]:
        """What a query finds. Raises StoreError."""
        with sentences(self.file):
            return self.connection.execute(sql, values).fetchall()

    @contextmanager
    def write(self, *, durable: bool = False) -> Iterator[sqlite3.Connection]:
        """A transaction, waiting for another writer. Raises StoreError; nothing is written then.

        Args:
            durable: Whether a power cut, too, takes neither this nor anything before it; the disk is waited for.
        """
        with sentences(self.file):
            self._check_place()
            with self._through() if durable else nullcontext(), transaction(self.connection) as db:
                yield db

    @contextmanager
    def _through(self) -> Iterator[None]:
        """Whatever ends in here is written through to the disk."""
        ((usual,),) = self.connection.execute("PRAGMA synchronous")
        self.connection.execute("PRAGMA synchronous = FULL")
        try:
            yield
        finally:
            self.connection.execute(f"PRAGMA synchronous = {usual}")

    @contextmanager
    def write_soon(self, wait_s: float, *, durable: bool = False) -> Iterator[sqlite3.Connection]:
        """As `write`, but it waits for another writer only so long, and raises SQLite's own error then."""
        with sentences(self.file, but_busy=True):
            self._check_place()
            self.connection.execute(f"PRAGMA busy_timeout = {wait_s * 1000:.0f}")
            try:
                with self._through() if durable else nullcontext(), transaction(self.connection) as db:
                    yield db
            finally:
                self.connection.execute(f"PRAGMA busy_timeout = {BUSY_S * 1000:.0f}")

    def _check_place(self) -> None:
        """SQLite goes on in a file that somebody has taken away, and what it writes there nobody finds."""
        if self.file is not None and place_of(self.file) != self._place:
            raise StoreError(
                f"The conversations cannot be kept: {self.file} was moved, removed or replaced.", "Put it back."
            )


def checkpoint(db: sqlite3.Connection) -> None:
    """Move the write-ahead log into the file, except pages that another Tandem still reads; ignore a full disk."""
    with suppress(sqlite3.OperationalError):
        db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()


def place_of(file: Path | None) -> tuple[int, int] | None:
    """What tells a file from any other; None where there is none."""
    if file is None:
        return None
    try:
        status = file.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def is_damage(error: sqlite3.Error | UnicodeDecodeError) -> bool:
    """Whether SQLite says that the file itself is broken; where its sentence quotes what is, Python cannot read it."""
    return _code(error) in _DAMAGED or getattr(error, "sqlite_errorcode", 0) == _BROKEN_INDEX


def is_busy(error: sqlite3.Error | UnicodeDecodeError) -> bool:
    """Whether another process holds the file."""
    return _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def suspicion(file: Path) -> Path:
    """The mark that SQLite has called a file damaged; the next start checks all of it, which takes a while."""
    return file.with_name(file.name + "-suspect")


@contextmanager
def sentences(file: Path | None, *, but_busy: bool = False) -> Iterator[None]:
    """Turn what SQLite and the disk say into a `StoreError`."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:
        if but_busy and is_busy(error):
            raise
        if file is not None and is_damage(error):
            with suppress(OSError):
                suspicion(file).touch()
        raise _refusal(error, file) from error
    except OSError as error:
        raise StoreError(
            f"The conversations cannot be kept in {file}: {error.strerror or error}.",
            "Check the folder and its permissions.",
        ) from error


def _refusal(error: sqlite3.Error | UnicodeDecodeError, file: Path | None) -> StoreError:
    place = file or "memory"
    if is_damage(error):
        return StoreError(f"The conversations in {place} are damaged.", "Tandem opens the latest backup.")
    match _code(error):
        case sqlite3.SQLITE_FULL:
            return StoreError("The disk is full, so messages are not saved.", "Free some space.")
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            return StoreError(
                f"The conversations cannot be kept: {place} cannot be written.", "Check the folder and its permissions."
            )
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StoreError("Another Tandem is writing the conversations.", "Try again when it is done.")
    return StoreError(
        f"The conversations in {place} cannot be read or written: {error}.", "Check the disk and its free space."
    )


def _code(error: sqlite3.Error | UnicodeDecodeError) -> int:
    if isinstance(error, UnicodeDecodeError):
        return sqlite3.SQLITE_CORRUPT
    return int(getattr(error, "sqlite_errorcode", 0)) & _PRIMARY
