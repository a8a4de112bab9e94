"""Backups beside the conversation database: one rolling daily copy, and one before each schema migration."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from threading import Thread

from app.conversations.database import connect, store_errors
from app.core import atomic
from app.core.errors import StoreError

_DAY_S = 24 * 3600.0


def start_daily_backup(file: Path) -> None:
    """Run `back_up_daily` in a thread."""
    Thread(target=back_up_daily, args=(file,), daemon=True).start()


def back_up_daily(file: Path) -> None:
    """Replace the daily backup if it is older than a day; keep the old one on failure.

    Takes seconds for a large file.
    """
    backup = _beside(file, "backup")
    with suppress(StoreError, OSError), store_errors(file):
        if backup.exists() and 0 <= time.time() - backup.stat().st_mtime < _DAY_S:
            return
        with closing(connect(file, "rw")) as db:
            if db.execute("SELECT 1 FROM messages LIMIT 1").fetchone():
                _copy(db, backup)


def back_up_before_migration(db: sqlite3.Connection, file: Path, version: int) -> None:
    """Copy a database that has an older schema version. Raises OSError or sqlite3.Error."""
    _copy(db, _beside(file, f"backup-schema-{version}"))


def backups(file: Path) -> Sequence[Path]:
    """List the backups of a file, newest first."""
    return sorted(file.parent.glob(f"{file.stem}-backup*{file.suffix}"), key=lambda path: -path.stat().st_mtime)


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
