"""The database file: other processes, older and newer versions, damage, and backups."""

import os
import shutil
import sqlite3
import stat
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from app.conversations import database
from app.conversations.database import damage_mark
from app.conversations.message import Role
from app.conversations.opening import back_up_daily, check_file
from app.conversations.store import Store
from app.conversations.tree import Node, State, StoredConversation, Summary, Tree
from app.core.errors import StoreError
from tests.conversations.stores import exchange

_PAGE = 4096


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A database with a conversation of three messages."""
    file = tmp_path / "conversations.db"
    with closing(Store(file)) as store:
        number, _, answer = exchange(store, "before", "the backup")
        store.add(number, Role.USER, "and on", parent=answer.id)
    return file


@pytest.fixture
def backup(file: Path) -> Path:
    back_up_daily(file)
    return file.with_name("conversations-backup.db")


def add(file: Path, prompt: str) -> None:
    with closing(Store(file)) as store:
        exchange(store, prompt, "an answer")


def titles(file: Path) -> list[str]:
    with closing(Store(file)) as store:
        return sorted(summary.title for summary in store.summaries())


def change(file: Path, sql: str) -> None:
    with closing(sqlite3.connect(file)) as db:
        db.execute(sql)
        db.commit()


def damage_first_page(file: Path) -> None:
    with file.open("r+b") as out:
        out.write(b"\xee" * _PAGE)


def damage_other_pages(file: Path) -> None:
    with file.open("r+b") as out:
        size = out.seek(0, os.SEEK_END)
        out.seek(_PAGE)
        out.write(b"\xee" * (size - _PAGE))
    damage_mark(file).touch()


def damage_schema(file: Path) -> None:
    change(file, "PRAGMA journal_mode = DELETE")
    data = file.read_bytes()
    file.write_bytes(data.replace(b"CREATE TABLE conversations", b"CREATE \xff\xfe\xff\xfe\xff conversations", 1))


# Other processes


def test_a_busy_file_is_an_error_and_a_running_answer_tries_again(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.conversations.opening.BUSY_S", 0.05)
    with closing(Store(file)) as store, closing(sqlite3.connect(file, isolation_level=None)) as other:
        conversation, asked, _ = exchange(store, "a", "b")
        journal = store.answer(conversation, asked.id)
        other.execute("BEGIN IMMEDIATE")
        journal.add("a piece")
        journal.flush()
        assert journal.error is not None
        with pytest.raises(StoreError, match="Another Tandem"):
            store.create()
        other.execute("ROLLBACK")
        journal.flush()
        assert journal.error is None
        assert store.database.rows("SELECT text FROM messages WHERE state = 'writing'") == [("a piece",)]


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX modes")
def test_only_the_owner_can_read_the_store(file: Path, backup: Path) -> None:
    with closing(Store(file)):
        assert {stat.S_IMODE(path.stat().st_mode) for path in file.parent.iterdir()} == {0o600}


def test_opening_and_quitting_move_the_log_into_the_file(file: Path, tmp_path: Path) -> None:
    killed, alone = tmp_path / "killed.db", tmp_path / "alone.db"
    with closing(Store(file)) as store, closing(Store(file)):
        exchange(store, "in the log", "only")
        for end in ("", "-wal"):
            shutil.copyfile(f"{file}{end}", f"{killed}{end}")
        store.close()
        shutil.copyfile(file, alone)
    assert titles(alone) == ["before", "in the log"]
    with closing(Store(killed)):
        shutil.copyfile(killed, alone)
    assert titles(alone) == ["before", "in the log"]


# Versions


def test_a_newer_file_is_not_changed(file: Path) -> None:
    change(file, "PRAGMA user_version = 99")
    before = file.read_bytes()
    for use in (check_file, Store):
        with pytest.raises(StoreError, match="newer Tandem"):
            use(file)
    assert file.read_bytes() == before


def test_a_migration_is_atomic_and_keeps_a_copy(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = ("ALTER TABLE messages ADD COLUMN note TEXT", "this is not SQL")
    for name in ("database.MIGRATIONS", "opening.MIGRATIONS"):
        monkeypatch.setattr(f"app.conversations.{name}", (*database.MIGRATIONS[:1], wrong))
    with pytest.raises(StoreError):
        Store(file)
    for name in ("database.MIGRATIONS", "opening.MIGRATIONS"):
        monkeypatch.setattr(f"app.conversations.{name}", (*database.MIGRATIONS[:1], wrong[:1]))
    with closing(Store(file)) as store:
        assert store.load(1).summary.title == "before"
        assert store.database.rows("SELECT note FROM messages LIMIT 1") == [(None,)]
        assert store.database.rows("PRAGMA user_version") == [(2,)]

    with closing(sqlite3.connect(file.with_name("conversations-backup-schema-1.db"))) as copy:
        assert copy.execute("PRAGMA user_version").fetchone() == (1,)
        assert copy.execute("SELECT count(*) FROM messages").fetchone() == (3,)


def test_a_file_of_the_first_version_opens_with_its_leftovers(tmp_path: Path) -> None:
    """Earlier versions had tables for imports and deletions in progress, and no index without trigrams."""
    file = tmp_path / "conversations.db"
    with closing(sqlite3.connect(file)) as db, db:
        for statement in database.MIGRATIONS[0]:
            db.execute(statement)
        db.execute("PRAGMA user_version = 1")
        db.execute("CREATE TABLE arriving (conversation INTEGER PRIMARY KEY, writer TEXT NOT NULL)")
        db.execute(
            "CREATE TABLE overdue (conversation INTEGER PRIMARY KEY REFERENCES conversations(id) ON DELETE CASCADE, "
            "deleted REAL NOT NULL, since REAL NOT NULL)"
        )
        db.execute("INSERT INTO conversations VALUES (1, 'old', 0, 0, 1.0, 1.0, NULL, 1, '{}', '')")
        db.execute("INSERT INTO conversations VALUES (2, 'half', 0, 0, 1.0, 1.0, -32503679999.0, NULL, '{}', '')")
        db.execute("INSERT INTO arriving VALUES (2, 'dead')")
        db.execute("INSERT INTO messages VALUES (1, 1, NULL, 'user', 'said long ago', '', 'complete', 1.0, '{}', '')")
        db.execute("INSERT INTO messages VALUES (2, 1, 1, 'assistant', '', '', 'writing', 1.0, '{}', 'dead')")
        db.execute("INSERT INTO journal VALUES (2, 0, 1, 'hm'), (2, 1, 0, 'half '), (2, 2, 0, 'an answer')")
    with closing(Store(file)) as store:
        assert [hit.conversation for hit in store.search("long ago")] == [1]
        answer = store.load(1).tree.nodes[2]
        assert (answer.reasoning, answer.text, answer.state) == ("hm", "half an answer", State.CUT)
        assert store.deleted() == ()
        assert [summary.title for summary in store.summaries()] == ["old"]


# Damage


@pytest.mark.parametrize("damage", [damage_first_page, damage_other_pages, damage_schema])
def test_a_damaged_file_is_set_aside_and_its_backup_opened(
    file: Path, backup: Path, damage: Callable[[Path], None]
) -> None:
    add(file, "after the backup")
    damage(file)
    broken = file.read_bytes()
    with pytest.raises(StoreError, match="damaged") as checked:
        check_file(file)
    assert "opens the latest backup" in checked.value.hint

    with closing(Store(file)) as store:
        assert "opened the backup of" in store.notice
        assert [summary.title for summary in store.summaries()] == ["before"]
    (aside,) = file.parent.glob("conversations-damaged-*.db")
    assert aside.read_bytes() == broken
    with closing(Store(file)) as store:
        assert store.notice == ""


def test_a_damaged_backup_is_ignored(file: Path, backup: Path) -> None:
    damage_first_page(file)
    damage_first_page(backup)
    with closing(Store(file)) as store:
        assert "have no backup" in store.notice
        assert store.summaries() == ()


def test_damage_found_in_use_is_repaired_at_the_next_start(file: Path) -> None:
    with closing(Store(file)) as store:
        nodes = {n: Node(n, n - 1 or None, Role.USER, f"{n} " + "words " * 100) for n in range(1, 301)}
        (number,) = store.insert([StoredConversation(Summary(0, "Long"), Tree(nodes, 300))])
    with file.open("r+b") as out:
        for page in range(20, file.stat().st_size // _PAGE):
            out.seek(page * _PAGE)
            out.write(b"\xff" * 200)

    with closing(Store(file)) as broken, pytest.raises(StoreError, match="damaged"):
        broken.load(number)
    with closing(Store(file)) as fresh:
        assert "were damaged" in fresh.notice


def test_a_broken_index_is_built_again(file: Path) -> None:
    change(file, "UPDATE found_data SET block = x'00' WHERE id >= 10")
    with closing(Store(file)) as store, pytest.raises(StoreError):
        exchange(store, "said with a broken index", "an answer")
    add(file, "said with a new index")
    with closing(Store(file)) as store:
        assert [len(store.search(text)) for text in ("backup", "new index")] == [1, 1]
    assert not list(file.parent.glob("*-damaged-*"))


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE messages SET role = 'usfr'",
        "UPDATE messages SET state = 'complfte'",
        "UPDATE messages SET stats = '{'",
        "UPDATE messages SET stats = '[1]'",
        "UPDATE messages SET text = cast(x'68ff' AS TEXT)",
        "UPDATE conversations SET settings = '{'",
        "UPDATE conversations SET title = cast(x'ff' AS TEXT)",
        "DELETE FROM messages WHERE id = 1",
        "DELETE FROM messages WHERE id = 2",
    ],
)
def test_a_damaged_value_leaves_the_others_readable(file: Path, sql: str) -> None:
    change(file, sql)
    with closing(Store(file)) as store:
        (summary,) = store.summaries()
        found = store.load(summary.id)
        assert [node.id for node in found.tree.path][-1] == 3
        assert all(isinstance(node.text, str) for node in found.tree.path)
        store.prompts(5)
        store.search("an")
        store.add(summary.id, Role.ASSISTANT, "more", parent=3)


# Backups


def test_the_backup_is_replaced_daily(file: Path, backup: Path) -> None:
    with closing(Store(file)) as store:
        exchange(store, "in the log", "only")
        back_up_daily(file)
        assert titles(backup) == ["before"]
        yesterday = time.time() - 25 * 3600
        os.utime(backup, (yesterday, yesterday))
        back_up_daily(file)
    assert titles(backup) == ["before", "in the log"]


def test_a_damaged_or_empty_database_replaces_no_backup(file: Path, backup: Path, tmp_path: Path) -> None:
    before = backup.read_bytes()
    damage_other_pages(file)
    os.utime(backup, (0, 0))
    back_up_daily(file)
    assert backup.read_bytes() == before

    empty = tmp_path / "empty" / "conversations.db"
    Store(empty).close()
    back_up_daily(empty)
    assert [path.name for path in empty.parent.iterdir()] == ["conversations.db"]


# The check of `tandem doctor`


def test_a_check_counts_without_changes(file: Path, tmp_path: Path) -> None:
    before = file.read_bytes()
    assert check_file(file) == 1
    assert check_file(tmp_path / "none.db") is None
    assert file.read_bytes() == before
    assert not (tmp_path / "none.db").exists()


def test_a_check_finds_a_folder(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="a folder"):
        check_file(tmp_path)
