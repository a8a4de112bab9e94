"""What survives a power cut: prompts and whole answers are written through to the disk."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest

from app.conversations import outage
from app.conversations.message import Role
from app.conversations.store import Store
from app.conversations.tree import State
from app.core.errors import StoreError
from tests.conversations.stores import exchange

_FULL, _NORMAL = 2, 1


def kept_by(store: Store) -> tuple[str, int]:
    """The mode of the journal, and how surely what is written is on the disk."""
    [(mode,)], [(level,)] = (store._database.rows(f"PRAGMA {name}") for name in ("journal_mode", "synchronous"))
    return mode, level


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
def test_a_power_cut_takes_nothing_that_was_said_in_an_outage(
    store: Store, at_the_end: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    levels: list[int] = []
    write = outage._write_changes

    def watched(memory: sqlite3.Connection, db: sqlite3.Connection, *more: Any) -> None:
        levels.extend(db.execute("PRAGMA synchronous").fetchone())
        write(memory, db, *more)

    monkeypatch.setattr(outage, "_write_changes", watched)
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
