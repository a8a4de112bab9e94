"""The file of the conversations: whose it is, who else may be in it, and what becomes of a damaged one."""

from __future__ import annotations

import sqlite3
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from app.conversations import schema
from app.conversations.message import Role
from app.conversations.schema import MIGRATIONS, migrate, version_of
from app.conversations.store import Store
from app.conversations.tree import State
from app.core.errors import StoreError
from tests.conversations.stores import exchange


def test_two_stores_see_each_other(store: Store, file: Path) -> None:
    other = Store.open(file)
    conversation, asked, _ = exchange(store, "hello", "world")
    answer = other.add(conversation, Role.ASSISTANT, "again", parent=asked.id)

    assert store.load(conversation).tree.leaf == answer.id
    other.close()


def test_a_writer_that_holds_the_file_too_long_is_named(store: Store, file: Path) -> None:
    conversation, asked, _ = exchange(store, "a", "b")
    journal = store.answer(conversation, asked.id)
    store._database.connection.execute("PRAGMA busy_timeout = 1")
    with sqlite3.connect(file, isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="Another Tandem"):
            store.create()
        journal.add("a piece")
        journal.flush()
        assert journal.trouble is None
        other.execute("ROLLBACK")
    other.close()
    journal.flush()
    assert store._database.rows("SELECT text FROM journal") == [("a piece",)]


def test_a_damaged_file_is_moved_aside_and_said(file: Path) -> None:
    file.parent.mkdir()
    for name in ("first", "second"):
        file.write_bytes(f"{name}, not a database".encode() * 500)
        store = Store.open(file)
        assert "were damaged" in store.notice
        assert store.summaries() == ()
        store.close()

    kept = sorted(file.parent.glob("*-damaged-*"))
    assert [path.read_bytes()[:6] for path in kept] == [b"second", b"first,"]


def test_damage_found_while_reading_is_checked_at_the_next_start(store: Store, file: Path) -> None:
    conversation = store.create()
    parent = None
    for n in range(300):
        parent = store.add(conversation, Role.USER, f"{n} " + "words " * 100, parent=parent).id
    store.close()
    data = bytearray(file.read_bytes())
    for page in range(12, len(data) // 4096):
        data[page * 4096 : page * 4096 + 200] = b"\xff" * 200
    file.write_bytes(data)

    broken = Store.open(file)
    with pytest.raises(StoreError, match="damaged") as caught:
        broken.load(conversation)
    assert "opens the latest backup" in caught.value.hint
    broken.close()

    fresh = Store.open(file)
    assert "were damaged" in fresh.notice
    [aside] = file.parent.glob("conversations-damaged-*.db")
    assert aside.read_bytes() == data
    fresh.close()
    assert Store.open(file).notice == ""


def test_a_newer_file_is_refused_and_left_alone(store: Store, file: Path) -> None:
    exchange(store, "a", "b")
    store._database.connection.execute("PRAGMA user_version = 99")
    store.close()
    before = file.read_bytes()

    with pytest.raises(StoreError, match="newer Tandem"):
        Store.open(file)
    copy = Store.in_memory(file)
    assert copy.summaries() == ()
    copy.close()
    assert file.read_bytes() == before


def test_a_database_of_another_program_is_refused(file: Path) -> None:
    file.parent.mkdir()
    with sqlite3.connect(file) as other:
        other.execute("CREATE TABLE theirs(x)")
    other.close()

    with pytest.raises(StoreError, match="another program"):
        Store.open(file)


def test_a_migration_is_done_whole_or_not_at_all(store: Store, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    conversation, *_ = exchange(store, "a", "b")
    store.close()
    wrong = ("ALTER TABLE messages ADD COLUMN note TEXT", "this is not SQL")
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, wrong))
    with pytest.raises(StoreError):
        Store.open(file)
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS[:1], wrong[:1]))
    again = Store.open(file)

    assert again.load(conversation).summary.title == "a"
    assert again._database.rows("SELECT note FROM messages LIMIT 1") == [(None,)]
    assert again._database.rows("PRAGMA user_version") == [(2,)]
    again.close()


def test_in_memory_nothing_is_written(tmp_path: Path) -> None:
    store = Store.in_memory(tmp_path / "conversations.db")
    conversation, asked, _ = exchange(store, "a", "b")
    store.answer(conversation, asked.id).finish(State.COMPLETE, text="c", stats={"n": 1})

    assert store.notice
    assert [hit.conversation for hit in store.search("a")] == [conversation]
    store.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="a matter of POSIX modes")
def test_nobody_else_can_read_it(store: Store, file: Path) -> None:
    exchange(store, "a", "b")

    assert {stat.S_IMODE(path.stat().st_mode) for path in file.parent.iterdir()} == {0o600}


def test_a_file_that_another_process_makes_just_now_is_ours(tmp_path: Path) -> None:
    class Interrupted(sqlite3.Connection):
        """Lets another one make the tables between two looks."""

        def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
            found = super().execute(sql, *parameters)
            if sql == "PRAGMA application_id":
                migrate(other)
            return found

    file = tmp_path / "conversations.db"
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("PRAGMA journal_mode = WAL")
    looking = sqlite3.connect(file, isolation_level=None, factory=Interrupted)

    assert version_of(looking) == 0
    assert version_of(other) == len(MIGRATIONS)
    looking.close()
    other.close()


def test_several_processes_may_make_the_file_at_once(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from app.conversations.store import Store\n"
        "from app.conversations.message import Role\n"
        "store = Store.open(Path(sys.argv[1]))\n"
        "for n in range(20): store.add(store.create(), Role.USER, f'{sys.argv[2]} {n}', parent=None)\n"
    )
    file = tmp_path / "conversations.db"
    running = [subprocess.Popen([sys.executable, "-c", code, str(file), name]) for name in ("a", "b", "c")]

    assert [process.wait() for process in running] == [0, 0, 0]
    store = Store.open(file)
    assert len(store.summaries()) == 60
    assert store.notice == ""
    store.close()
