"""A disk that refuses: the error is shown, the text stays and is written once the disk works again."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import pytest

from app.conversations.backup import back_up_daily
from app.conversations.disk import SAVED, Disk
from app.conversations.message import Role
from app.conversations.store import Store
from app.conversations.tree import State
from app.core.errors import StoreError
from tests.conversations.stores import Clock, exchange, fill_disk, free_disk, texts

LONG = "x" * 100_000


@pytest.fixture
def lost() -> list[int | None]:
    return []


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def disk(file: Path, clock: Clock, lost: list[int | None], said: list[str]) -> Disk:
    disk = Disk(lambda: Store.open(file), lost.append, clock)
    disk.say = said.append
    disk.open()
    return disk


@pytest.mark.parametrize("place", ["folder", "below a file"])
def test_a_place_that_cannot_hold_the_file_is_an_error(tmp_path: Path, place: str) -> None:
    (tmp_path / "plain").write_text("x")
    (tmp_path / "taken").mkdir()
    file = tmp_path / "taken" if place == "folder" else tmp_path / "plain" / "conversations.db"

    with pytest.raises(StoreError, match="cannot be saved") as caught:
        Store.open(file)
    assert caught.value.hint


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root writes everywhere")
def test_a_file_that_cannot_be_written_is_an_error(store: Store, file: Path) -> None:
    store.close()
    file.chmod(0o400)
    with pytest.raises(StoreError, match="cannot be saved"):
        Store.open(file)


def test_a_store_that_cannot_be_opened_is_replaced_by_memory(said: list[str]) -> None:
    def refuse() -> Store:
        raise StoreError("It is from a newer Tandem.", "Update.")

    disk = Disk(refuse, lambda conversation: None)
    disk.say = said.append
    disk.open()
    assert said == ["It is from a newer Tandem. Update. Conversations are kept in memory only, until Tandem ends."]
    disk.do(lambda store: exchange(store, "a", "b"), None)
    assert [summary.title for summary in disk.do(lambda store: store.summaries(), None) or ()] == ["a"]


def test_a_full_disk_refuses_a_prompt_and_keeps_the_answer_until_it_is_free(
    disk: Disk, file: Path, clock: Clock, said: list[str]
) -> None:
    store = disk.store
    assert store is not None
    conversation, asked, _ = exchange(store, "a", "b")
    journal = store.answer(conversation, asked.id)
    fill_disk(store)
    journal.add(LONG)
    journal.flush()
    assert journal.trouble is not None
    assert disk.do(lambda store: journal.finish(State.STOPPED), None) is None
    assert disk.do(lambda store: store.add(conversation, Role.USER, LONG, parent=asked.id), None) is None
    assert said == ["The disk is full, so messages are not saved. Free some space."]
    clock.now += 10.0
    assert disk.do(lambda store: store.add(conversation, Role.USER, LONG, parent=asked.id), None) is None
    disk.maintain()
    assert len(said) == 2, "it is repeated after 10 s"

    free_disk(store)
    disk.maintain()
    assert said[2:] == [SAVED]
    disk.close()
    assert disk.unwritten is None
    assert texts(file) == [["a", LONG]]


@pytest.mark.parametrize(("is_free", "state"), [(True, State.CUT), (False, None)])
def test_what_the_disk_refused_is_written_at_the_end_or_reported(
    disk: Disk, file: Path, is_free: bool, state: State | None
) -> None:
    store = disk.store
    assert store is not None
    conversation, asked, _ = exchange(store, "a", "b")
    journal = store.answer(conversation, asked.id)
    journal.add(LONG)
    fill_disk(store)
    journal.flush()
    if is_free:
        free_disk(store)
    disk.close()
    if state is None:
        assert disk.unwritten is not None
        assert "is full, so messages are not saved. The latest messages are lost." in disk.unwritten.sentences
        return
    assert disk.unwritten is None
    with closing(Store.open(file)) as after:
        answer = after.load(conversation).tree.path[-1]
        assert (answer.text, answer.state) == (LONG, state)


def test_a_conversation_that_another_tandem_removed_is_reported_as_lost(
    disk: Disk, file: Path, lost: list[int | None], said: list[str]
) -> None:
    disk.do(lambda store: exchange(store, "a", "b"), None)
    with closing(Store.open(file)) as other:
        other.database.connection.execute("DELETE FROM conversations")
    assert disk.do(lambda store: store.load(1), 1) is None
    assert (lost, len(said)) == ([1], 1)


def test_a_backup_is_due_once_an_hour_at_most(
    disk: Disk, file: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied = []

    class Started:
        def __init__(self, target: object, args: tuple[Path], daemon: bool) -> None:
            assert target is back_up_daily
            copied.append((clock.now, *args))

        def start(self) -> None:
            pass

    monkeypatch.setattr("app.conversations.disk.Thread", Started)
    for _ in range(720):
        disk.maintain()
        clock.now += 10.0

    assert copied == [(1000.0, file), (4600.0, file)]
    disk.close()
