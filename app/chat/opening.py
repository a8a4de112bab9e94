"""Opening the conversations: as they should be, damaged, or as a copy in memory."""

from __future__ import annotations

import errno
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from shutil import copyfile

from app import regular_file
from app.chat import journal_mode, schema
from app.chat.backup import back_up_before_migration, backups
from app.chat.database import BUSY_S, Database, checkpoint, is_damage, place_of, sentences, suspicion
from app.chat.health import check_all_but_index
from app.chat.rows import decoded
from app.chat.salvage import salvage
from app.chat.schema import mend_index, migrate, prepare_index, prepare_unfinished, version_of
from app.errors import StoreError
from app.file_lock import exclusive

_COMPANIONS = ("", "-wal", "-shm", "-journal")
SOON_S = 0.05
"""How long somebody who is at something else waits for another Tandem."""
_MENDING_S = 10.0
"""How long a start waits for another one that checks the same file, and saves what is in it."""


def open_file(file: Path) -> tuple[Database, str]:
    """Open the store's file, making it if it is absent.

    Returns:
        The database, and a sentence for the user if the old file was damaged and is now elsewhere.

    Raises:
        StoreError: The place cannot be written, is locked, or holds what is not for this program.
    """
    with sentences(file):
        _make_private(file)
        if not suspicion(file).exists():
            try:
                return _opened(file), ""
            except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
                if not is_damage(error):
                    raise
        # Of two starts, one would put the file aside that the other has just made.
        with exclusive(file, StoreError, timeout_s=_MENDING_S):
            opened = _mended(file)
            suspicion(file).unlink(missing_ok=True)
            return opened


def reopen_file(file: Path) -> Database:
    """Open the file that a store had to leave, as it is, without waiting long for anybody.

    Raises:
        StoreError: It still cannot be written, or is damaged.
    """
    with sentences(file):
        _make_private(file)
        return _opened(file, wait_s=SOON_S)


def _mended(file: Path) -> tuple[Database, str]:
    """Open a file that may be damaged, as `open_file`; where that is refused it stays as it is."""
    try:
        # Another one may have mended it meanwhile.
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
    """Say in a sentence that a damaged file was replaced by a backup of that time, or by an empty file."""
    if made is None:
        return f"The conversations were damaged and have no backup; the damaged file is kept as {aside}."
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(made))
    return f"The conversations were damaged; Tandem opened the backup of {when} and kept the damaged file as {aside}."


def _restored(file: Path, new: Path) -> float | None:
    """Copy the newest backup that is whole; return when it was made, or None and an empty file if there is none.

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


def open_copy(file: Path | None) -> tuple[Database, bool]:
    """A database in memory, with what can be read from a file.

    Returns:
        The database, and whether it is a copy of the file.
    """
    if file is not None and regular_file.is_file(file):
        # A disk that refuses SQLite's lock files can be read as one that never changes.
        for mode in ("mode=ro", "immutable=1"):
            with (
                suppress(sqlite3.Error, UnicodeDecodeError, StoreError),
                closing(sqlite3.connect(f"{file.absolute().as_uri()}?{mode}", uri=True)) as source,
            ):
                return Database(_copy_of(source, file), None), True
    db = _memory()
    _settle(db)
    return Database(db, None), False


def move_into_memory(database: Database) -> None:
    """Go on with a copy of everything in memory, or of what can be read, and let go of the file."""
    with sentences(database.file):
        database.replace(_copy_of(database.connection, database.file))


def _copy_of(source: sqlite3.Connection, file: Path | None) -> sqlite3.Connection:
    """A copy in memory of everything in a file, or of what can be read."""
    is_broken = file is not None and regular_file.exists(suspicion(file))
    return (_copied_by_row if is_broken else _copied)(source)


def _copied(source: sqlite3.Connection) -> sqlite3.Connection:
    db = _memory()
    try:
        source.backup(db)
        _settle(db)
    except BaseException:
        db.close()
        raise
    return db


def _copied_by_row(source: sqlite3.Connection) -> sqlite3.Connection:
    """A copy that is whole, of what is not: page by page the damage would come along."""
    db = _memory()
    _settle(db)
    salvage(source, db)
    return db


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
        journal_mode.choose(db, file, wait_s)
        if check:
            check_all_but_index(db)
        if not is_copy and (version := _older_version(db)):
            back_up_before_migration(db, file, version)
        _settle(db)
        if check:
            mend_index(db)
        checkpoint(db)
    except BaseException:
        db.close()
        raise
    return db


def _older_version(db: sqlite3.Connection) -> int:
    """Return the schema version if a migration will change it, else 0."""
    version = version_of(db)
    return version if version < len(schema.MIGRATIONS) else 0


def _settle(db: sqlite3.Connection) -> None:
    # One title with a broken byte would make every list unreadable.
    db.text_factory = decoded
    migrate(db)
    prepare_unfinished(db)
    prepare_index(db)
    db.execute("PRAGMA foreign_keys = ON")


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
