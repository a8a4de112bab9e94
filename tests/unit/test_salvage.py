"""A file that is broken somewhere: what can still be read of it is there again."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from app.chat.database import suspicion
from app.chat.message import Role
from app.chat.store import Store
from app.chat.tree import State
from app.engine.types import FinishReason
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
    store._writers.close()
    store._database.close()
    overwrite(file, _MESSAGES)
    suspicion(file).touch()
    with closing(Store.open(file)) as after:
        last = after.load(conversation).tree.path[-1]
        assert (last.text, last.state) == ("half of it", State.CUT)
        assert after.take_unsent() == "half a thought"


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


@pytest.mark.parametrize("what", ["id = 10", "id > 10"])
def test_an_index_that_broke_is_built_anew_and_takes_nothing_with_it(file: Path, what: str) -> None:
    with closing(sqlite3.connect(file)) as db:
        db.execute(f"UPDATE found_data SET block = x'00' WHERE {what}")
        db.commit()
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
