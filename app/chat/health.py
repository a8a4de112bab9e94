"""Whether the conversations can be opened, found out beforehand."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from app import regular_file
from app.chat.database import sentences
from app.chat.schema import drop_index, version_of


def examine(file: Path) -> int | None:
    """Read all of the conversations' file; nothing in it is changed, and it stays where it is.

    Returns:
        How many conversations there are; None if there is no file yet.

    Raises:
        StoreError: It is damaged, cannot be read, or is not for this program.
    """
    with sentences(file):
        try:
            regular_file.status(file)
        except FileNotFoundError:
            return None
        try:
            return _count(file, "mode=ro")
        except sqlite3.OperationalError:
            # A folder that refuses SQLite's lock files can be read as one that never changes.
            return _count(file, "immutable=1")


def check_pages(db: sqlite3.Connection) -> None:
    """Read every page. Raises sqlite3.DatabaseError with the code of damage if one is broken."""
    (verdict,) = db.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        error = sqlite3.DatabaseError(verdict)
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise error


def check_all_but_index(db: sqlite3.Connection) -> None:
    """As `check_pages`, of a file that can be written; a broken full-text index is none of the damage.

    SQLite 3.44 and newer reads that, too.
    """
    try:
        check_pages(db)
    except (sqlite3.DatabaseError, UnicodeDecodeError) as damage:
        db.execute("BEGIN IMMEDIATE")
        try:
            drop_index(db)
            check_pages(db)
        except (sqlite3.DatabaseError, UnicodeDecodeError):
            raise damage from None
        finally:
            # It was gone for the check alone.
            if db.in_transaction:
                db.execute("ROLLBACK")


def _count(file: Path, mode: str) -> int:
    with closing(sqlite3.connect(f"{file.absolute().as_uri()}?{mode}", uri=True)) as db:
        version_of(db)
        try:
            check_pages(db)
        except (sqlite3.DatabaseError, UnicodeDecodeError):
            # Where it is, nothing is taken out of it, not even for a moment.
            with closing(sqlite3.connect(":memory:", isolation_level=None)) as copy:
                db.backup(copy)
                check_all_but_index(copy)
        (n,) = db.execute("SELECT count(*) FROM conversations").fetchone()
        return int(n)
