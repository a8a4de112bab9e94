"""A file that is broken somewhere: what can still be read of it is there again."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from app.chat import health, opening
from app.chat.database import suspicion
from app.chat.message import Role
from app.chat.salvage import salvage
from app.chat.store import Store
from app.chat.tree import State, Typed
from app.engine.types import FinishReason
from app.errors import StoreError
from app.file_lock import exclusive
from tests.unit.keeping import Kept
from tests.unit.stores import exchange

_N = 60
_PAGE = 4096
_MESSAGES, _CONVERSATIONS = "answer 30 answer 30", "typed in 30"
"""What stands in the middle of a table and nowhere else."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Sixty conversations whose answers take a page each, and more."""
    file = tmp_path / "conversations.db"
    with closing(Store.open(file)) as store:
        for n in range(1, _N + 1):
            number, *_ = exchange(store, f"prompt {n}", f"answer {n} " * 600)
            store.set_draft(number, f"typed in {n}")
    return file


def overwrite(file: Path, what: str) -> None:
    """Put what no disk should hold into the page where this stands first."""
    with closing(sqlite3.connect(file)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with file.open("r+b") as out:
        out.seek(out.read().index(what.encode()) // _PAGE * _PAGE)
        out.write(b"\xee" * _PAGE)


def texts(store: Store) -> dict[str, list[str]]:
    return {each.title: [node.text for node in store.load(each.id).tree.path] for each in store.summaries()}


def whole(n: int) -> list[str]:
    return [f"prompt {n}", f"answer {n} " * 600]


def test_a_broken_page_takes_only_what_is_on_it(file: Path) -> None:
    overwrite(file, _MESSAGES)
    suspicion(file).touch()
    with closing(Store.open(file)) as store:
        aside = next(file.parent.glob("*-damaged-*.db"))
        assert store.notice.endswith(f"perhaps not whole; the damaged file is kept as {aside}.")
        found = texts(store)
        assert len([n for n in range(1, _N + 1) if found.get(f"prompt {n}") == whole(n)]) >= _N - 3
        assert len(store.search("answer", limit=_N)) >= _N - 3
        # And it goes on, with numbers that nothing else has.
        exchange(store, "more", "of it")
        assert store._database.rows("PRAGMA foreign_key_check") == []


def test_a_conversation_whose_own_row_is_lost_is_called_after_what_was_said_in_it(file: Path) -> None:
    overwrite(file, _CONVERSATIONS)
    suspicion(file).touch()
    with closing(Store.open(file)) as store:
        assert texts(store) == {f"prompt {n}": whole(n) for n in range(1, _N + 1)}
        assert all(each.updated > 0 for each in store.summaries())


def test_of_a_file_that_was_cut_short_the_beginning_is_there(file: Path) -> None:
    with file.open("r+b") as out:
        out.truncate(file.stat().st_size * 3 // 4 // _PAGE * _PAGE)
    with closing(Store.open(file)) as store:
        found = texts(store)
        assert _N / 4 < len([n for n in range(1, _N + 1) if found.get(f"prompt {n}") == whole(n)]) < _N


def test_an_answer_that_was_on_its_way_is_there_as_far_as_it_got(file: Path) -> None:
    store = Store.open(file)
    conversation, asked, _ = exchange(store, "last", "said")
    journal = store.answer(conversation, asked.id)
    journal.add("half of it")
    journal.flush()
    store.keep_unsent("half a thought")
    store.set_aside("another one")
    store._writers.close()
    store._database.close()
    overwrite(file, _MESSAGES)
    suspicion(file).touch()
    with closing(Store.open(file)) as after:
        last = after.load(conversation).tree.path[-1]
        assert (last.text, last.state) == ("half of it", State.CUT)
        assert after.take_unsent() == "half a thought"
        assert Typed("another one", said=False) in after.typed(9)


def test_what_was_set_aside_is_there_with_its_conversation_or_without(file: Path) -> None:
    with closing(Store.open(file)) as store:
        store.set_aside("in the first", 1)
        lost = store.create()
        store.set_aside("in one that is lost", lost)
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("DELETE FROM conversations WHERE id = ?", (lost,))
    overwrite(file, _MESSAGES)
    suspicion(file).touch()
    with closing(Store.open(file)) as after:
        there = {one.text for one in after.typed(_N + 2) if not one.said}
        assert there == {"in the first", "in one that is lost"}
        after.delete(1)
        assert [one.text for one in after.typed(_N + 2) if not one.said] == ["in one that is lost"]


def test_what_breaks_in_use_goes_on_with_what_can_be_read_and_is_whole_after_the_end(file: Path) -> None:
    kept = Kept(file)
    overwrite(file, _CONVERSATIONS)
    # Nothing of it is remembered.
    assert kept.keeper._disk.store is not None
    kept.keeper._disk.store._database.connection.execute("PRAGMA shrink_memory")
    assert kept.keeper.search("answer")
    assert "are damaged" in kept.said[0]
    assert kept.keeper.open(1) is not None
    kept.exchange("and on", "it goes")
    kept.keeper.close()
    assert list(file.parent.glob("*-damaged-*.db"))

    with closing(Store.open(file)) as store:
        assert store.notice == ""
        assert [node.text for node in store.load(1).tree.path] == [*whole(1), "and on", "it goes"]
        assert len(store.summaries()) >= _N - 3


def full(*_: object, **__: object) -> None:
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL
    raise error


@pytest.mark.parametrize("step", ["a new file", "a row", "the last moment"])
def test_where_there_is_no_room_to_save_it_a_damaged_file_stays_and_is_read(
    file: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    overwrite(file, _MESSAGES)
    suspicion(file).touch()
    damaged = file.read_bytes()

    def without_room(source: sqlite3.Connection, db: sqlite3.Connection) -> int:
        if db.execute("PRAGMA database_list").fetchone()[2]:
            db.execute("PRAGMA max_page_count = 40")
        return salvage(source, db)

    with monkeypatch.context() as patch:
        match step:
            case "a new file":
                patch.setattr(opening, "_make_private", lambda path: full() if path != file else None)
            case "a row":
                patch.setattr(opening, "salvage", without_room)
            case _:
                patch.setattr(opening, "_told", full)
        with pytest.raises(StoreError, match="is full"):
            Store.open(file)
        assert suspicion(file).exists()
        assert not list(file.parent.glob("*-damaged-*")) + list(file.parent.glob("*-salvaged*"))
        assert file.read_bytes() == damaged
        with closing(Store.open_anyway(file)) as copy:
            assert "is full" in copy.notice
            assert len(copy.summaries()) >= _N - 3

    with closing(Store.open(file)) as store:
        assert "were damaged" in store.notice
        assert len(store.summaries()) >= _N - 3
        assert not suspicion(file).exists()


def test_of_two_starts_that_find_the_same_damage_the_second_opens_what_the_first_has_saved(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    overwrite(file, _MESSAGES)
    suspicion(file).touch()
    first: list[Store] = []

    @contextmanager
    def after_the_first(*args: Any, **options: Any) -> Iterator[None]:
        monkeypatch.setattr(opening, "exclusive", exclusive)
        first.append(Store.open(file))
        with exclusive(*args, **options):
            yield

    monkeypatch.setattr(opening, "exclusive", after_the_first)
    with closing(Store.open(file)) as second, closing(first[0]):
        assert "were damaged" in first[0].notice
        assert second.notice == ""
        exchange(second, "of the second", "kept")
        assert "of the second" in texts(first[0])
    assert len(list(file.parent.glob("*-damaged-*.db"))) == 1


def test_while_one_start_saves_a_file_another_neither_moves_nor_opens_it(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    overwrite(file, _MESSAGES)
    suspicion(file).touch()
    monkeypatch.setattr(opening, "_MENDING_S", 0)
    refused: list[BaseException | None] = []

    def watched(source: sqlite3.Connection, db: sqlite3.Connection) -> int:
        monkeypatch.setattr(opening, "salvage", salvage)
        with ThreadPoolExecutor() as another:
            refused.append(another.submit(Store.open, file).exception())
        return salvage(source, db)

    monkeypatch.setattr(opening, "salvage", watched)
    with closing(Store.open(file)) as store:
        assert isinstance(refused[0], StoreError)
        assert "held by another program" in str(refused[0])
        exchange(store, "more", "of it")
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


_check_pages = health.check_pages


def check_with_index(db: sqlite3.Connection) -> None:
    """As SQLite 3.44 and newer checks a file."""
    if db.execute("SELECT 1 FROM sqlite_master WHERE name = 'found'").fetchone():
        db.execute("INSERT INTO found(found, rank) VALUES ('integrity-check', 0)")
    _check_pages(db)


@pytest.mark.parametrize("check", [_check_pages, check_with_index])
def test_a_page_that_broke_beside_the_index_is_damage_to_any_sqlite(
    file: Path, monkeypatch: pytest.MonkeyPatch, check: Callable[[sqlite3.Connection], None]
) -> None:
    with closing(sqlite3.connect(file)) as db:
        db.execute("UPDATE found_data SET block = x'00' WHERE id > 10")
        db.commit()
    overwrite(file, _MESSAGES)
    suspicion(file).touch()
    monkeypatch.setattr(health, "check_pages", check)
    with pytest.raises(StoreError, match="are damaged"):
        health.examine(file)
    with closing(Store.open(file)) as store:
        assert "were damaged" in store.notice


@pytest.mark.parametrize("check", [_check_pages, check_with_index])
@pytest.mark.parametrize("what", ["id = 10", "id > 10"])
def test_an_index_that_broke_is_built_anew_and_takes_nothing_with_it(
    file: Path, monkeypatch: pytest.MonkeyPatch, what: str, check: Callable[[sqlite3.Connection], None]
) -> None:
    monkeypatch.setattr(health, "check_pages", check)
    with closing(sqlite3.connect(file)) as db:
        db.execute(f"UPDATE found_data SET block = x'00' WHERE {what}")
        db.commit()
    assert health.examine(file) == _N
    kept = Kept(file)
    kept.keeper.search("answer")
    kept.exchange("said with a broken index", "heard", FinishReason.STOP)
    assert kept.said
    kept.keeper.close()
    with closing(Store.open(file)) as store:
        assert [len(store.search(text, _N)) for text in ("answer", "broken index")] == [_N, 1]
        assert len(store.summaries()) == _N + 1
        assert store.notice == ""
        store.add(1, Role.USER, "on disk", parent=None)
    assert not list(file.parent.glob("*-damaged-*"))
