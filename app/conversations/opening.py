"""Open the conversation database: write-ahead log, migration, checkpoint, daily backups, and repair from a backup."""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from contextlib import closing, suppress
from pathlib import Path
from threading import Thread

from app.conversations.database import (
    BUSY_S,
    ERRORS,
    MIGRATIONS,
    Database,
    checkpoint,
    connect,
    damage_mark,
    drop_index,
    is_busy,
    is_damage,
    prepare,
    schema_version,
    store_errors,
    transaction,
)
from app.core import atomic, regular_file
from app.core.errors import StoreError

_DATABASE_SUFFIXES = ("", "-wal", "-shm")
"""SQLite's database, write-ahead log and shared-memory file."""
_DAY_S = 24 * 3600.0


def open_file(file: Path) -> tuple[Database, str]:
    """Open or create the database; replace a damaged file by its backup.

    Also returns a notice if the file was damaged, else "". Raises StoreError if the file cannot be written, is busy, or
    belongs to a newer Tandem.
    """
    with store_errors(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        _create_private(file)
        notice = ""
        try:
            opened = _open(file, check=damage_mark(file).exists())
        except ERRORS as error:
            if not is_damage(error):
                raise
            notice = _restore(file)
            opened = _open(file)
        damage_mark(file).unlink(missing_ok=True)
        return opened, notice


def open_memory() -> Database:
    """Open an empty database in memory."""
    return Database(_prepare(sqlite3.connect(":memory:", isolation_level=None)))


def is_unused(file: Path) -> bool:
    """Ask SQLite's lock whether no process has the file open."""
    try:
        with closing(connect(file, "rw", timeout=0)) as db:
            db.execute("PRAGMA locking_mode = EXCLUSIVE")
            db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except ERRORS as error:
        return not is_busy(error)
    return True


def check_file(file: Path) -> int | None:
    """Check every page for `tandem doctor`; return the number of conversations, or None if the file does not exist.

    Changes nothing. Raises StoreError if the file is damaged, unreadable, or from a newer Tandem.
    """
    with store_errors(file):
        try:
            regular_file.status(file)
        except FileNotFoundError:
            return None
        with closing(connect(file, "ro")) as db:
            schema_version(db)
            _check_pages(db)
            (n,) = db.execute("SELECT count(*) FROM conversations").fetchone()
            return int(n)


def _create_private(file: Path) -> None:
    # SQLite would open a read-only file and fail at the first message.
    os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o600))
    regular_file.status(file)


def _open(file: Path, *, check: bool = False) -> Database:
    db = sqlite3.connect(file, timeout=BUSY_S, isolation_level=None)
    try:
        # macOS writes through to the disk only with this pragma; other systems ignore it.
        db.execute("PRAGMA fullfsync = ON")
        db.execute("PRAGMA journal_mode = WAL")
        if check:
            with transaction(db):
                # The index may be the broken part; it can be rebuilt.
                drop_index(db)
                _check_pages(db)
        if 0 < (version := schema_version(db)) < len(MIGRATIONS):
            _copy(db, _beside(file, f"backup-schema-{version}"))
        _prepare(db)
        checkpoint(db)
    except BaseException:
        db.close()
        raise
    return Database(db, file)


def _prepare(db: sqlite3.Connection) -> sqlite3.Connection:
    # A title with an invalid byte would make every list unreadable.
    db.text_factory = lambda text: text.decode("utf-8", "replace")
    prepare(db)
    db.execute("PRAGMA foreign_keys = ON")
    return db


def _check_pages(db: sqlite3.Connection) -> None:
    (verdict,) = db.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        error = sqlite3.DatabaseError(verdict)
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise error


def _restore(file: Path) -> str:
    """Rename a damaged file and replace it by the newest intact backup, if any; return a notice."""
    new = file.with_name(file.name + "-restored")
    aside = file.with_name(f"{file.stem}-damaged-{time.strftime('%Y-%m-%d-%H%M%S')}{file.suffix}")
    backups = sorted(file.parent.glob(f"{file.stem}-backup*{file.suffix}"), key=lambda path: -path.stat().st_mtime)
    backup = next((backup for backup in backups if _copied_intact(backup, new)), None)
    for suffix in _DATABASE_SUFFIXES:
        with suppress(FileNotFoundError):
            file.with_name(file.name + suffix).rename(aside.with_name(aside.name + suffix))
    if backup is None:
        _create_private(file)
        return f"The conversations were damaged and have no backup; the damaged file is kept as {aside}."
    new.rename(file)
    made = time.strftime("%Y-%m-%d %H:%M", time.localtime(backup.stat().st_mtime))
    return f"The conversations were damaged; Tandem opened the backup of {made} and kept the damaged file as {aside}."


def _copied_intact(backup: Path, new: Path) -> bool:
    shutil.copy(backup, new)
    try:
        with closing(connect(new, "rw")) as db:
            _check_pages(db)
            return True
    except ERRORS:
        new.unlink()
        return False


# Backups: a rolling daily copy, and a copy before each schema migration


def start_daily_backup(file: Path) -> None:
    """Run `back_up_daily` in a thread."""
    Thread(target=back_up_daily, args=(file,), daemon=True).start()


def back_up_daily(file: Path) -> None:
    """Replace the daily backup if it is older than a day; on failure, keep it.

    Takes seconds for a large file.
    """
    backup = _beside(file, "backup")
    with suppress(StoreError, OSError), store_errors(file):
        if backup.exists() and 0 <= time.time() - backup.stat().st_mtime < _DAY_S:
            return
        with closing(connect(file, "rw")) as db:
            if db.execute("SELECT 1 FROM messages LIMIT 1").fetchone():
                _copy(db, backup)


def _copy(db: sqlite3.Connection, to: Path) -> None:
    new = to.with_name(f"{to.name}-{os.getpid()}-new")
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    try:
        # Unlike the backup API, this fails on a damaged page instead of copying it.
        db.execute("VACUUM INTO ?", (str(new),))
        os.fsync(descriptor)
    except BaseException:
        new.unlink()
        raise
    finally:
        os.close(descriptor)
    atomic.replace(new, to)


def _beside(file: Path, name: str) -> Path:
    return file.with_name(f"{file.stem}-{name}{file.suffix}")
