"""How what is written is kept whole: on a disk of the machine, on one that others use too, and through a power cut."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path, PureWindowsPath
from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.chat import journal_mode
from app.chat.message import Role
from app.chat.network_disk import is_on_network
from app.chat.same import make_same
from app.chat.store import Store
from app.chat.tree import State
from app.errors import StoreError
from tests.unit.stores import exchange

_FULL, _NORMAL = 2, 1


def kept_by(store: Store) -> tuple[str, int]:
    """The mode of the journal, and how surely what is written is on the disk."""
    [(mode,)], [(level,)] = (store._database.rows(f"PRAGMA {name}") for name in ("journal_mode", "synchronous"))
    return mode, level


def mounted(monkeypatch: pytest.MonkeyPatch, *places: tuple[str, str]) -> None:
    parts = [SimpleNamespace(mountpoint=place, fstype=kind) for place, kind in places]
    monkeypatch.setattr("psutil.disk_partitions", lambda *, all: parts)  # noqa: A006 - psutil's name


@pytest.fixture
def on_network(monkeypatch: pytest.MonkeyPatch) -> None:
    mounted(monkeypatch, ("/", "nfs4"))


@pytest.mark.skipif(sys.platform == "win32", reason="Windows is not asked")
@pytest.mark.parametrize(
    ("places", "is_so"),
    [
        ((("/", "ext4"), ("/no-such/home", "nfs4")), True),
        ((("/", "ext4"), ("/no-such/home", "nfs4"), ("/no-such/home/me", "xfs")), False),
        ((("/", "nfs4"), ("/no-such/home", "btrfs")), False),
        ((("/", "9p"), ("/no-such/homes", "ext4")), True),
        # The later one covers the other.
        ((("/no-such/home", "autofs"), ("/no-such/home", "cifs")), True),
        ((("/no-such/home", "cifs"), ("/no-such/home", "ext4")), False),
        ((), False),
    ],
)
def test_a_disk_of_another_machine_is_told_by_what_is_mounted(
    monkeypatch: pytest.MonkeyPatch, places: tuple[tuple[str, str], ...], *, is_so: bool
) -> None:
    mounted(monkeypatch, *places)
    assert is_on_network(Path("/no-such/home/me/conversations.db")) is is_so


@pytest.mark.parametrize(
    ("file", "is_so"),
    [
        (r"C:\Users\me\AppData\Local\tandem\conversations.db", False),
        (r"\\?\C:\Users\me\conversations.db", False),
        (r"\\server\homes\me\conversations.db", True),
        (r"\\?\UNC\server\homes\me\conversations.db", True),
    ],
)
def test_a_share_of_windows_is_on_a_network(monkeypatch: pytest.MonkeyPatch, file: str, *, is_so: bool) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr("app.regular_file.resolved", lambda path: path)
    assert is_on_network(cast(Path, PureWindowsPath(file))) is is_so


def test_a_system_that_does_not_tell_what_is_mounted_stops_nothing(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    def refused(**_: object) -> None:
        raise PermissionError

    monkeypatch.setattr("psutil.disk_partitions", refused)
    with closing(Store.open(file)) as store:
        assert kept_by(store) == ("wal", _NORMAL)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows is not asked")
@pytest.mark.usefixtures("on_network")
def test_on_a_network_there_is_no_log_that_machines_would_have_to_share(file: Path) -> None:
    store, other = Store.open(file), Store.open(file)
    exchange(store, "a", "b")
    exchange(other, "c", "d")

    assert [kept_by(each) for each in (store, other)] == [("truncate", _FULL)] * 2
    assert [len(each.summaries()) for each in (store, other)] == [2, 2]
    assert not list(file.parent.glob("*-wal"))
    store.close()
    other.close()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows is not asked")
def test_a_log_that_came_along_onto_a_network_goes_into_the_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(Store.open(file)) as store:
        exchange(store, "a", "b")
        assert kept_by(store) == ("wal", _NORMAL)
    mounted(monkeypatch, ("/", "nfs4"))
    with closing(Store.open(file)) as store:
        assert [hit.title for hit in store.search("a")] == ["a"]
        assert kept_by(store) == ("truncate", _FULL)


@pytest.mark.skipif(sys.platform == "win32", reason="a way of SQLite on POSIX")
@pytest.mark.parametrize("has_log", [False, True])
def test_a_disk_that_gives_processes_no_common_memory_is_written_without_a_log(
    file: Path, monkeypatch: pytest.MonkeyPatch, *, has_log: bool
) -> None:
    if has_log:
        elsewhere = Store.open(file)
        exchange(elsewhere, "a", "b")
        # As it is when the process is killed: all is in the log.
        copied = {path.name: path.read_bytes() for path in file.parent.iterdir() if not path.name.endswith("-shm")}
        elsewhere.close()
        for name, data in copied.items():
            file.with_name(name).write_bytes(data)
    connect: Callable[..., sqlite3.Connection] = sqlite3.connect

    def without_memory(path: Path, **more: Any) -> sqlite3.Connection:
        # Locks by files beside it: of all of SQLite's ways the one that needs the least.
        return connect(f"{path.absolute().as_uri()}?vfs=unix-dotfile", uri=True, **more)

    monkeypatch.setattr(sqlite3, "connect", without_memory)
    with closing(Store.open(file)) as store:
        exchange(store, "c", "d")
        assert kept_by(store) == ("truncate", _FULL)
        with closing(Store.open(file)) as other:
            exchange(other, "e", "f")
        assert sorted(each.title for each in store.summaries()) == ["a"] * has_log + ["c", "e"]


def test_a_file_that_is_held_is_waited_for_and_keeps_its_log(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(Store.open(file)) as store:
        db = sqlite3.connect(file, isolation_level=None, timeout=0)
        monkeypatch.setattr(journal_mode, "is_on_network", lambda _: True)
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            journal_mode.choose(db, file, 0.0)
        db.close()
        assert kept_by(store) == ("wal", _NORMAL)


def test_a_power_cut_takes_no_prompt_and_no_answer_that_has_ended(store: Store) -> None:
    done: list[str] = []
    store._database.connection.set_trace_callback(done.append)

    def levels() -> list[str]:
        """How each transaction since the last call was written."""
        level, found = "NORMAL", []
        for statement in done:
            if statement.startswith("PRAGMA synchronous ="):
                level = statement.rpartition(" ")[2]
            elif statement == "COMMIT":
                found.append(level)
        assert level in ("NORMAL", str(_NORMAL))
        done.clear()
        return found

    conversation = store.create()
    levels()
    asked = store.add(conversation, Role.USER, "Why?", parent=None)
    assert levels() == ["FULL"]
    journal = store.answer(conversation, asked.id)
    for piece in ("Because", " it is"):
        journal.add(piece)
        journal.flush()
    assert levels() == ["NORMAL"] * 3
    journal.finish(State.COMPLETE)
    assert levels() == ["FULL"]
    (imported,) = store.insert([store.transcript(conversation)])
    assert levels()[-1] == "FULL"
    store.rename(imported, "Light")
    assert levels() == ["NORMAL"]


@pytest.mark.parametrize("at_the_end", [False, True])
def test_a_power_cut_takes_nothing_that_has_come_back_from_memory(
    store: Store, at_the_end: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    levels: list[int] = []

    def same(memory: sqlite3.Connection, db: sqlite3.Connection, number: int) -> None:
        levels.extend(db.execute("PRAGMA synchronous").fetchone())
        make_same(memory, db, number)

    monkeypatch.setattr("app.chat.parting.make_same", same)
    store.go_on_in_memory()
    exchange(store, "a", "b")
    if at_the_end:
        store.close()
    else:
        assert store.return_to_disk()
        assert kept_by(store) == ("wal", _NORMAL)

    assert levels == [_FULL]


def test_a_disk_that_refuses_leaves_the_rest_as_fast_as_it_was(store: Store) -> None:
    conversation = store.create()
    (pages,) = store._database.rows("PRAGMA page_count")[0]
    store._database.connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreError, match="is full"):
        store.add(conversation, Role.USER, "x" * 100_000, parent=None)

    assert kept_by(store) == ("wal", _NORMAL)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows is not asked")
@pytest.mark.usefixtures("on_network")
def test_a_damaged_file_that_makes_way_leaves_no_journal_behind(file: Path) -> None:
    Store.open(file).close()
    file.write_bytes(b"no database " * 1000)
    with closing(Store.open(file)) as store:
        exchange(store, "a", "b")

    assert {path.name for path in file.parent.iterdir() if "damaged" not in path.name and path.suffix != ".lock"} == {
        file.name,
        f"{file.name}-journal",
    }
