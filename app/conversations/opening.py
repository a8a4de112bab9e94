"""Open the conversation database: write-ahead log, checkpoint, repair from a backup, or a copy in memory."""

from __future__ import annotations

import errno
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from shutil import copyfile

from app.conversations import schema
from app.conversations.backup import back_up_before_migration, backups
from app.conversations.database import BUSY_S, Database, checkpoint, is_busy, is_damage, place_of, sentences, suspicion
from app.conversations.rows import decoded
from app.conversations.schema import drop_index, migrate, prepare_index, prepare_unfinished, version_of
from app.conversations.transaction import transaction
from app.core import regular_file
from app.core.errors import StoreError
from app.core.file_lock import exclusive

_COMPANIONS = ("", "-wal", "-shm", "-journal")
SOON_S = 0.05
"""Seconds to wait for another Tandem while the screen waits."""
_REPAIR_S = 10.0
"""Seconds to wait for another Tandem that checks and repairs the same file."""
_BUSY_POLL_S = 0.01


def open_file(file: Path, wait_s: float = BUSY_S) -> tuple[Database, str]:
    """Open the store's file, making it if it is absent.

    Args:
        file: Where it is.
        wait_s: How long to wait for another writer.

    Returns:
        The database, and a sentence for the user if the old file was damaged and is now elsewhere.

    Raises:
        StoreError: The place cannot be written, is locked, or holds what is not for this program.
    """
    with sentences(file):
        _make_private(file)
        if not suspicion(file).exists():
            try:
                return _opened(file, wait_s=wait_s), ""
            except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
                if not is_damage(error):
                    raise
        # Of two starts, one would put the file aside that the other has just made.
        with exclusive(file, StoreError, timeout_s=_REPAIR_S):
            opened = _repaired(file)
            suspicion(file).unlink(missing_ok=True)
            return opened


def _repaired(file: Path) -> tuple[Database, str]:
    """Open a file that may be damaged, as `open_file`; where that is refused it stays as it is."""
    try:
        # Another Tandem may have repaired it meanwhile.
        return _opened(file, check=suspicion(file).exists()), ""
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        if not is_damage(error):
            raise
    with suppress(OSError):
        suspicion(file).touch()
    new, aside = file.with_name(file.name + "-restored"), _free_name(file)
    try:
        made = _restored(file, new)
        with _moved(file, aside), _moved(new, file):
            return _opened(file), _told(aside, made)
    finally:
        with suppress(OSError):
            _remove(new)


def _told(aside: Path, made: float | None) -> str:
    """Return the notice that a backup of that time, or an empty file, replaced a damaged file."""
    if made is None:
        return f"The conversations were damaged and have no backup; the damaged file is kept as {aside}."
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(made))
    return f"The conversations were damaged; Tandem opened the backup of {when} and kept the damaged file as {aside}."


def _restored(file: Path, new: Path) -> float | None:
    """Copy the newest intact backup and return its time; create an empty file and return None without one.

    Raises:
        OSError: The copy cannot be written.
        sqlite3.Error: SQLite refuses.
    """
    for backup in backups(file):
        _remove(new)
        _make_private(new)
        copyfile(backup, new)
        try:
            _prepared(new, check=True, is_copy=True).close()
        except (sqlite3.DatabaseError, UnicodeDecodeError, StoreError) as error:
            if isinstance(error, sqlite3.DatabaseError) and not is_damage(error):
                raise
        else:
            return backup.stat().st_mtime
    _remove(new)
    _make_private(new)
    _prepared(new).close()
    return None


def examine(file: Path) -> int | None:
    """Check every page without changing anything.

    Returns:
        The number of conversations; None if there is no file yet.

    Raises:
        StoreError: It is damaged, cannot be read, or is not for this program.
    """
    with sentences(file):
        try:
            regular_file.status(file)
        except FileNotFoundError:
            return None
        with closing(_read_only(file)) as db:
            version_of(db)
            _check_pages(db)
            (n,) = db.execute("SELECT count(*) FROM conversations").fetchone()
            return int(n)


def open_copy(file: Path | None) -> tuple[Database, bool]:
    """Open a database in memory.

    Returns:
        The database, and whether it is a copy of the file.
    """
    if file is not None and regular_file.is_file(file):
        with (
            suppress(sqlite3.Error, UnicodeDecodeError, StoreError),
            closing(_read_only(file)) as source,
        ):
            return Database(_copy_of(source, file), None), True
    return Database(_settled(_memory()), None), False


def move_into_memory(database: Database) -> bool:
    """Replace the file by a copy in memory, or an empty database; return whether the file was readable."""
    try:
        database.replace(_copy_of(database.connection, database.file))
    except (sqlite3.Error, UnicodeDecodeError, StoreError):
        database.replace(_settled(_memory()))
        return False
    return True


def write_copy(source: sqlite3.Connection, file: Path) -> None:
    """Write a whole database where a file was removed. Raises StoreError; nothing is written then."""
    new = file.with_name(file.name + "-restored")
    with sentences(file), exclusive(file, StoreError, timeout_s=_REPAIR_S):
        try:
            _remove(new)
            _make_private(new)
            with closing(sqlite3.connect(new)) as db:
                source.backup(db)
            if not regular_file.exists(file):
                # Other processes may still use the log of the file that was removed.
                _remove(file)
                new.rename(file)
        finally:
            with suppress(OSError):
                _remove(new)


def _read_only(file: Path) -> sqlite3.Connection:
    """Open a file for reading; raises sqlite3.Error."""
    uri = file.absolute().as_uri()
    try:
        db = sqlite3.connect(f"{uri}?mode=ro", uri=True, isolation_level=None)
        db.execute("PRAGMA user_version").fetchone()
    except sqlite3.OperationalError:
        # A folder that refuses SQLite's lock files can be read as one that never changes.
        db = sqlite3.connect(f"{uri}?immutable=1", uri=True, isolation_level=None)
    return db


def _copy_of(source: sqlite3.Connection, file: Path | None) -> sqlite3.Connection:
    """Copy everything into memory; raises sqlite3.Error if it is damaged."""
    db = _memory()
    try:
        source.backup(db)
        if file is not None and regular_file.exists(suspicion(file)):
            _check(db)
        return _settled(db)
    except BaseException:
        db.close()
        raise


def _make_private(file: Path) -> None:
    """What people say to a model is theirs: nobody else on the machine may read the file, nor what lies beside it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    if regular_file.exists(file):
        regular_file.status(file)
    else:
        os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o600))
    # SQLite would open what cannot be written for reading, and fail at the first message.
    if not (os.access(file, os.W_OK) and os.access(file.parent, os.W_OK)):
        raise PermissionError(errno.EACCES, "it cannot be written")


def _opened(file: Path, *, check: bool = False, wait_s: float = BUSY_S) -> Database:
    # Before it is opened: of what takes its place meanwhile no writer is to be sure.
    place = place_of(file)
    return Database(_prepared(file, check=check, wait_s=wait_s), file, place)


def _prepared(file: Path, *, check: bool = False, wait_s: float = BUSY_S, is_copy: bool = False) -> sqlite3.Connection:
    db = sqlite3.connect(file, timeout=wait_s, isolation_level=None)
    try:
        _choose_journal(db, wait_s)
        if not is_copy and (version := _older_version(db)):
            back_up_before_migration(db, file, version)
        if check:
            _check(db)
        _settled(db)
        checkpoint(db)
    except BaseException:
        db.close()
        raise
    return db


def _older_version(db: sqlite3.Connection) -> int:
    """Return the schema version if a migration will change it, else 0."""
    version = version_of(db)
    return version if version < len(schema.MIGRATIONS) else 0


def _choose_journal(db: sqlite3.Connection, wait_s: float) -> None:
    """Switch to a write-ahead log; a file system without shared memory gets a rollback journal."""
    # macOS writes through to the disk only with this pragma; other systems ignore it.
    db.execute("PRAGMA fullfsync = ON")
    has_log = _switch_journal(db, "WAL", wait_s)
    # A killed process loses no commit; `Database.write` syncs commits that must survive a power cut.
    db.execute(f"PRAGMA synchronous = {'NORMAL' if has_log else 'FULL'}")


def _switch_journal(db: sqlite3.Connection, mode: str, wait_s: float) -> bool:
    """Ask for a journal mode; return whether it is in use. SQLite itself does not wait when two switch at once."""
    deadline = time.monotonic() + wait_s
    while True:
        try:
            return str(db.execute(f"PRAGMA journal_mode = {mode}").fetchone()[0]).upper() == mode
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() > deadline:
                raise
            time.sleep(_BUSY_POLL_S)


def _check(db: sqlite3.Connection) -> None:
    """Check every page; drop the full-text index, which is rebuilt from the messages.

    Raises:
        sqlite3.DatabaseError: A page is damaged; nothing was changed.
    """
    with transaction(db):
        drop_index(db)
        _check_pages(db)


def _check_pages(db: sqlite3.Connection) -> None:
    (verdict,) = db.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        error = sqlite3.DatabaseError(verdict)
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise error


def _settled(db: sqlite3.Connection) -> sqlite3.Connection:
    # One title with a broken byte would make every list unreadable.
    db.text_factory = decoded
    migrate(db)
    prepare_unfinished(db)
    prepare_index(db)
    db.execute("PRAGMA foreign_keys = ON")
    return db


def _memory() -> sqlite3.Connection:
    return sqlite3.connect(":memory:", isolation_level=None)


def _free_name(file: Path) -> Path:
    """Where a damaged file goes."""
    stamp = time.strftime("%Y-%m-%d")
    names = (f"{file.stem}-damaged-{stamp}{suffix}{file.suffix}" for suffix in ("", *(f"-{n}" for n in range(2, 1000))))
    return next(path for path in map(file.with_name, names) if not path.exists())


def _with_companions(file: Path) -> list[Path]:
    return [file.with_name(file.name + companion) for companion in _COMPANIONS]


def _remove(file: Path) -> None:
    for path in _with_companions(file):
        path.unlink(missing_ok=True)


@contextmanager
def _moved(file: Path, to: Path) -> Iterator[None]:
    """Rename a file and what belongs to it, and back again where the block fails."""
    with ExitStack() as back:
        for here, there in zip(_with_companions(file), _with_companions(to), strict=True):
            try:
                here.rename(there)
            except FileNotFoundError:
                # What the block has made of that name belongs to no other file.
                back.callback(there.unlink, missing_ok=True)
            else:
                back.callback(there.rename, here)
        yield
        back.pop_all()
