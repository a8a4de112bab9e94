"""A disk that refuses: the error is shown, the text stays and is written once the disk works again."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import pytest

from app.conversations.message import Role
from app.conversations.store import Store
from app.conversations.tree import State
from app.core.errors import StoreError
from app.session.library import Library
from tests.conversations.stores import Clock, exchange, fill_disk, free_disk, texts

LONG = "x" * 100_000


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def library(file: Path, clock: Clock, said: list[str]) -> Library:
    library = Library(lambda: Store(file), clock)
    library.say = said.append
    library.open_store()
    return library


@pytest.mark.parametrize("place", ["folder", "below a file"])
def test_a_place_that_cannot_hold_the_file_is_an_error(tmp_path: Path, place: str) -> None:
    (tmp_path / "plain").write_text("x")
    (tmp_path / "taken").mkdir()
    file = tmp_path / "taken" if place == "folder" else tmp_path / "plain" / "conversations.db"

    with pytest.raises(StoreError, match="cannot be saved") as caught:
        Store(file)
    assert caught.value.hint


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root writes everywhere")
def test_a_file_that_cannot_be_written_is_an_error(file: Path) -> None:
    Store(file).close()
    file.chmod(0o400)
    with pytest.raises(StoreError, match="cannot be saved"):
        Store(file)


def test_a_store_that_cannot_be_opened_is_replaced_by_memory(said: list[str]) -> None:
    def refuse() -> Store:
        raise StoreError("It is from a newer Tandem.", "Update.")

    library = Library(refuse)
    library.say = said.append
    library.open_store()
    assert said == ["It is from a newer Tandem. Update. Conversations are kept in memory only, until Tandem ends."]
    library.do(lambda store: exchange(store, "a", "b"))
    assert [summary.title for summary in library.do(lambda store: store.summaries()) or ()] == ["a"]


def test_a_full_disk_refuses_a_prompt_and_keeps_the_answer_until_it_is_free(
    library: Library, file: Path, clock: Clock, said: list[str]
) -> None:
    store = library.store
    assert store is not None
    conversation, asked, _ = exchange(store, "a", "b")
    journal = store.answer(conversation, asked.id)
    fill_disk(store)
    journal.add(LONG)
    journal.flush()
    assert journal.error is not None
    journal.finish(State.STOPPED)
    assert journal.error is not None
    assert library.do(lambda store: store.add(conversation, Role.USER, LONG, parent=asked.id)) is None
    assert said == ["The disk is full, so messages are not saved. Free some space."]
    clock.now += 10.0
    assert library.do(lambda store: store.add(conversation, Role.USER, LONG, parent=asked.id)) is None
    library.maintain()
    assert len(said) == 2, "it is repeated after 10 s"

    free_disk(store)
    library.maintain()
    assert said[2:] == ["All messages are saved again."]
    library.close()
    assert library.unwritten is None
    assert texts(file) == [["a", LONG]]


@pytest.mark.parametrize(("is_free", "state"), [(True, State.CUT), (False, None)])
def test_refused_text_is_written_at_the_end_or_reported(
    library: Library, file: Path, is_free: bool, state: State | None
) -> None:
    store = library.store
    assert store is not None
    conversation, asked, _ = exchange(store, "a", "b")
    journal = store.answer(conversation, asked.id)
    journal.add(LONG)
    fill_disk(store)
    journal.flush()
    if is_free:
        free_disk(store)
    library.close()
    if state is None:
        assert library.unwritten is not None
        assert "is full, so messages are not saved. The latest messages are lost." in library.unwritten.sentences
        return
    assert library.unwritten is None
    with closing(Store(file)) as after:
        answer = after.load(conversation).tree.path[-1]
        assert (answer.text, answer.state) == (LONG, state)


def test_a_backup_is_due_once_an_hour_at_most(
    library: Library, file: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied: list[tuple[float, Path]] = []
    monkeypatch.setattr("app.conversations.opening.start_daily_backup", lambda file: copied.append((clock.now, file)))
    for _ in range(720):
        library.maintain()
        clock.now += 10.0

    assert copied == [(1000.0, file), (4600.0, file)]
    library.close()
