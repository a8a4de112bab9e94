"""Backups of the conversation database, and what happens when the database is damaged."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from app.conversations import backup, opening, schema
from app.conversations.backup import back_up_daily
from app.conversations.database import suspicion
from app.conversations.store import Store
from app.core.errors import StoreError
from app.core.file_lock import exclusive
from tests.conversations.stores import exchange
from tests.session.scripted import ScriptedSession

_PAGE = 4096


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A database with one conversation."""
    file = tmp_path / "conversations.db"
    with closing(Store.open(file)) as store:
        exchange(store, "before", "the backup")
    return file


@pytest.fixture
def copy(file: Path) -> Path:
    """A backup of it."""
    back_up_daily(file)
    return file.with_name("conversations-backup.db")


def add(file: Path, prompt: str) -> None:
    with closing(Store.open(file)) as store:
        exchange(store, prompt, "an answer")


def titles(file: Path) -> list[str]:
    with closing(Store.open(file)) as store:
        return sorted(summary.title for summary in store.summaries())


def damage_first_page(file: Path) -> None:
    with file.open("r+b") as out:
        out.write(b"\xee" * _PAGE)


def damage_text(file: Path) -> None:
    """Overwrite every page behind the first, and let the next start check the file."""
    with file.open("r+b") as out:
        size = out.seek(0, os.SEEK_END)
        out.seek(_PAGE)
        out.write(b"\xee" * (size - _PAGE))
    suspicion(file).touch()


def test_a_day_later_the_backup_is_replaced_and_not_earlier(file: Path, copy: Path) -> None:
    add(file, "later")
    back_up_daily(file)
    assert titles(copy) == ["before"]

    yesterday = time.time() - 25 * 3600
    os.utime(copy, (yesterday, yesterday))
    back_up_daily(file)
    assert titles(copy) == ["before", "later"]


def test_a_database_in_use_is_backed_up_with_what_is_in_its_log(file: Path) -> None:
    with closing(Store.open(file)) as store:
        exchange(store, "in the log", "only")
        back_up_daily(file)

    assert titles(file.with_name("conversations-backup.db")) == ["before", "in the log"]


@pytest.mark.skipif(sys.platform == "win32", reason="a matter of POSIX modes")
def test_only_the_owner_can_read_the_backup(copy: Path) -> None:
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600


def test_an_empty_database_is_no_backup(tmp_path: Path) -> None:
    file = tmp_path / "conversations.db"
    Store.open(file).close()
    back_up_daily(file)

    assert [path.name for path in tmp_path.iterdir()] == ["conversations.db"]


def test_a_damaged_database_replaces_no_backup_and_is_checked_at_the_next_start(file: Path, copy: Path) -> None:
    before = copy.read_bytes()
    damage_text(file)
    suspicion(file).unlink()
    os.utime(copy, (0, 0))
    back_up_daily(file)

    assert copy.read_bytes() == before
    assert suspicion(file).exists()


def test_a_disk_without_room_for_it_is_not_filled_by_a_backup(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backup, "disk_usage", lambda _: SimpleNamespace(free=file.stat().st_size))
    back_up_daily(file)

    assert not file.with_name("conversations-backup.db").exists()


@pytest.mark.parametrize("damage", [damage_first_page, damage_text])
def test_of_a_damaged_database_the_backup_is_opened_and_the_file_set_aside(
    file: Path, copy: Path, damage: Callable[[Path], None]
) -> None:
    add(file, "after the backup")
    damage(file)
    damaged = file.read_bytes()

    with closing(Store.open(file)) as store:
        assert [summary.title for summary in store.summaries()] == ["before"]
        assert "Tandem opened the backup of" in store.notice
        assert store.notice.count(". ") == 0
        exchange(store, "goes on", "in the restored file")
    [aside] = file.parent.glob("conversations-damaged-*.db")
    assert str(aside) in store.notice
    assert aside.read_bytes() == damaged
    assert titles(file) == ["before", "goes on"]
    assert titles(copy) == ["before"]


def test_a_damaged_backup_is_passed_over_for_an_older_one(file: Path, copy: Path) -> None:
    older = file.with_name("conversations-backup-schema-0.db")
    shutil.copyfile(copy, older)
    os.utime(older, (1000, 1000))
    damage_first_page(copy)
    damage_first_page(file)

    with closing(Store.open(file)) as store:
        assert [summary.title for summary in store.summaries()] == ["before"]
        assert "1970-01-01" in store.notice


def test_without_a_backup_a_damaged_database_is_set_aside_and_an_empty_one_opened(file: Path) -> None:
    damage_first_page(file)

    with closing(Store.open(file)) as store:
        assert store.summaries() == ()
        assert "have no backup" in store.notice
    assert len(list(file.parent.glob("conversations-damaged-*.db"))) == 1


def test_a_migration_keeps_a_copy_of_the_older_schema(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    column = ("ALTER TABLE messages ADD COLUMN note TEXT",)
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, column))
    Store.open(file).close()

    with closing(sqlite3.connect(file.with_name("conversations-backup-schema-1.db"))) as copy:
        assert copy.execute("PRAGMA user_version").fetchone() == (1,)
        assert copy.execute("SELECT text FROM messages ORDER BY id").fetchall() == [("before",), ("the backup",)]
        assert "note" not in [name for _, name, *_ in copy.execute("PRAGMA table_info(messages)")]


def test_opening_moves_the_log_of_a_killed_process_into_the_file(file: Path, tmp_path: Path) -> None:
    killed, alone = tmp_path / "killed.db", tmp_path / "alone.db"
    with closing(Store.open(file)) as store:
        exchange(store, "in the log", "only")
        for end in ("", "-wal"):
            shutil.copyfile(f"{file}{end}", f"{killed}{end}")
    with closing(Store.open(killed)):
        shutil.copyfile(killed, alone)

    assert titles(alone) == ["before", "in the log"]


def test_quitting_moves_the_log_into_the_file_though_another_tandem_has_it_open(file: Path, tmp_path: Path) -> None:
    alone = tmp_path / "alone.db"
    with closing(Store.open(file)) as store, closing(Store.open(file)):
        exchange(store, "in the log", "only")
        store.close()
        shutil.copyfile(file, alone)

    assert titles(alone) == ["before", "in the log"]


def test_the_chat_backs_up_once_an_hour_at_most(chat: ScriptedSession, monkeypatch: pytest.MonkeyPatch) -> None:
    now, copied = [100.0], []
    chat.library.disk._clock = lambda: now[0]

    class Started:
        def __init__(self, target: object, args: tuple[Path], daemon: bool) -> None:
            assert target is back_up_daily
            copied.append((now[0], *args))

        def start(self) -> None:
            pass

    monkeypatch.setattr("app.conversations.disk.Thread", Started)
    for _ in range(720):
        chat.library.maintain()
        now[0] += 10.0

    assert copied == [(100.0, chat.file), (3700.0, chat.file)]


def test_of_two_starts_that_find_the_same_damage_the_second_opens_what_the_first_has_restored(
    file: Path, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    damage_first_page(file)
    first: list[Store] = []

    @contextmanager
    def after_the_first(*args: Any, **options: Any) -> Iterator[None]:
        monkeypatch.setattr(opening, "exclusive", exclusive)
        first.append(Store.open(file))
        with exclusive(*args, **options):
            yield

    monkeypatch.setattr(opening, "exclusive", after_the_first)
    with closing(Store.open(file)) as second, closing(first[0]):
        assert "opened the backup" in first[0].notice
        assert second.notice == ""
        exchange(second, "of the second", "kept")
        assert [summary.title for summary in first[0].summaries()] == ["of the second", "before"]
    assert len(list(file.parent.glob("*-damaged-*.db"))) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="a file that is open can be moved")
def test_nothing_is_written_into_a_file_that_was_moved_while_it_was_opened(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def moved(db: sqlite3.Connection) -> None:
        file.rename(file.with_name("elsewhere"))
        file.touch()

    monkeypatch.setattr(opening, "prepare_index", moved)
    database, _ = opening.open_file(file)
    with closing(database), pytest.raises(StoreError, match="was moved"), database.write():
        pass


@pytest.mark.parametrize("what", ["id = 10", "id > 10"])
def test_a_broken_index_is_built_again_and_no_backup_opened(file: Path, copy: Path, what: str) -> None:
    with closing(sqlite3.connect(file)) as db, db:
        db.execute(f"UPDATE found_data SET block = x'00' WHERE {what}")
    chat = ScriptedSession(file)
    chat.library.search("backup")
    chat.exchange("said with a broken index", "an answer")
    chat.session.close()

    with closing(Store.open(file)) as store:
        assert store.notice == ""
        assert [len(store.search(text)) for text in ("backup", "broken index")] == [1, 1]
    assert not list(file.parent.glob("*-damaged-*"))
