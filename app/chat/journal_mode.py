"""How SQLite keeps what is written whole, as far as the disk of the file allows it."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

from app.chat.database import is_busy
from app.chat.network_disk import is_on_network

_LOG, _ROLLBACK = "WAL", "TRUNCATE"


def choose(db: sqlite3.Connection, file: Path, wait_s: float) -> None:
    """Switch to the write-ahead log; where that cannot be, to a journal for going back.

    The log needs memory that all who use the file share: there is none between two machines, and some file systems
    have none at all (https://sqlite.org/wal.html).

    Args:
        db: The file, just opened.
        file: Where it is.
        wait_s: How long another Tandem is waited for.

    Raises:
        sqlite3.Error: What SQLite says where neither is possible.
    """
    # Elsewhere than on macOS this does nothing; there the system writes through to the disk only if it is told so.
    db.execute("PRAGMA fullfsync = ON")
    if not is_on_network(file) and _uses_log(db, wait_s):
        # A killed process loses nothing of what was committed; what a power cut must not take is written through
        # (`Database.write`).
        db.execute("PRAGMA synchronous = NORMAL")
        return
    try:
        _switch(db, _ROLLBACK, wait_s)
    except sqlite3.OperationalError as error:
        if is_busy(error):
            raise
        _leave_log(db, wait_s)
    db.execute("PRAGMA synchronous = FULL")


def _uses_log(db: sqlite3.Connection, wait_s: float) -> bool:
    try:
        return _switch(db, _LOG, wait_s) == _LOG
    except sqlite3.OperationalError as error:
        if is_busy(error):
            raise
        return False


def _leave_log(db: sqlite3.Connection, wait_s: float) -> None:
    """Without that memory, a log from elsewhere is read only by one that has the file alone."""
    db.execute("PRAGMA locking_mode = EXCLUSIVE")
    _switch(db, _ROLLBACK, wait_s)
    db.execute("PRAGMA locking_mode = NORMAL")
    # It lets go with the next look.
    db.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone()


def _switch(db: sqlite3.Connection, mode: str, wait_s: float) -> str:
    """Ask for a mode; returns the one that it is now. SQLite does not wait by itself when two switch a file at once."""
    deadline = time.monotonic() + wait_s
    while True:
        try:
            return str(db.execute(f"PRAGMA journal_mode = {mode}").fetchone()[0]).upper()
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
