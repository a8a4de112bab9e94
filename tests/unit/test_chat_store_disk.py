"""A disk that refuses, and a file that cannot be opened: nothing that was said is lost."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app.chat.message import Role
from app.chat.store import Store
from app.chat.tree import State
from app.errors import StoreError
from tests.unit.stores import Clock, exchange


@pytest.mark.parametrize("place", ["folder", "below a file"])
def test_a_place_that_cannot_hold_it_is_a_sentence(tmp_path: Path, place: str) -> None:
    (tmp_path / "plain").write_text("x")
    (tmp_path / "taken").mkdir()
    file = tmp_path / "taken" if place == "folder" else tmp_path / "plain" / "conversations.db"

    with pytest.raises(StoreError, match="cannot be kept") as caught:
        Store.open(file)
    assert caught.value.hint


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root writes everywhere")
def test_a_disk_that_cannot_be_written_is_a_sentence_and_can_be_read(store: Store, file: Path) -> None:
    conversation, *_ = exchange(store, "a", "b")
    store.close()
    file.chmod(0o400)
    file.parent.chmod(0o500)
    try:
        with pytest.raises(StoreError, match="cannot be written"):
            Store.open(file)
        copy = Store.in_memory(file)
    finally:
        file.parent.chmod(0o700)
    assert not copy.on_disk
    assert len(copy.load(conversation).tree.path) == 2
    copy.add(conversation, Role.USER, "goes on", parent=None)
    copy.close()


def test_a_full_disk_stops_nothing(store: Store, file: Path) -> None:
    conversation, asked, _ = exchange(store, "a", "b")
    journal = store.answer(conversation, asked.id)
    (pages,) = store._database.rows("PRAGMA page_count")[0]
    store._database.connection.execute(f"PRAGMA max_page_count = {pages}")
    journal.add("x" * 100_000)
    journal.flush()
    assert journal.trouble is not None
    assert "is full" in journal.trouble.message
    with pytest.raises(StoreError, match="is full"):
        journal.finish(State.STOPPED)

    store.go_on_in_memory()
    done = journal.finish(State.STOPPED)
    more = store.add(conversation, Role.USER, "and on", parent=done.id)
    assert not store.on_disk
    assert [node.id for node in store.load(conversation).tree.path] == [asked.id, done.id, more.id]
    assert len(store.load(conversation).tree.path[1].text) == 100_000

    on_disk = Store.open(file)
    assert [node.text for node in on_disk.load(conversation).tree.path] == ["a", "b"]
    on_disk.close()


def fill(store: Store) -> None:
    """Let the store's disk be full."""
    (pages,) = store._database.rows("PRAGMA page_count")[0]
    store._database.connection.execute(f"PRAGMA max_page_count = {pages}")


def on_disk(file: Path) -> list[list[str]]:
    """What the file says, conversation by conversation, the newest first."""
    store = Store.open(file)
    said = [[node.text for node in store.load(each.id).tree.path] for each in store.summaries()]
    assert store._database.rows("PRAGMA integrity_check") == [("ok",)]
    store.close()
    return said


def test_what_a_full_disk_refused_is_written_at_the_end_if_there_is_room_by_then(
    store: Store, file: Path, clock: Clock
) -> None:
    untouched, *_ = exchange(store, "x", "y")
    renamed, *_ = exchange(store, "r", "s")
    dropped, *_ = exchange(store, "p", "q")
    conversation, _, answer = exchange(store, "a", "b")
    fill(store)
    store.go_on_in_memory()
    asked = store.add(conversation, Role.USER, "and on", parent=answer.id)
    journal = store.answer(conversation, asked.id)
    journal.add("not yet at its end")
    exchange(store, "new", "too")
    store.rename(renamed, "Another title")
    store.delete(dropped)
    assert [len(each) for each in on_disk(file)] == [2, 2, 2, 2]

    store.close()
    assert sorted(on_disk(file)) == [
        ["a", "b", "and on", "not yet at its end"],
        ["new", "too"],
        ["r", "s"],
        ["x", "y"],
    ]
    again = Store.open(file, now=clock)
    assert {each.title for each in again.summaries()} == {"a", "new", "Another title", "x"}
    assert [again.load(number).tree.path[0].text for number in (untouched, renamed, conversation)] == ["x", "r", "a"]
    assert again.deleted() == (dropped,)
    [cut] = again.search("not yet at its end")
    assert again.load(cut.conversation).tree.path[-1].state is State.CUT
    again.close()


def test_an_answer_that_began_before_the_disk_refused_is_written_whole(store: Store, file: Path) -> None:
    conversation, asked, _ = exchange(store, "a", "b")
    journal = store.answer(conversation, asked.id)
    journal.add("on disk, ")
    journal.flush()
    store.go_on_in_memory()
    journal.add("in memory")
    store.close()
    assert on_disk(file) == [["a", "on disk, in memory"]]


def test_what_another_tandem_said_meanwhile_stays(store: Store, file: Path) -> None:
    conversation, _, answer = exchange(store, "a", "b")
    store.go_on_in_memory()
    store.add(conversation, Role.USER, "mine", parent=answer.id)
    other = Store.open(file)
    other.add(conversation, Role.USER, "theirs", parent=answer.id)
    other.close()
    store.close()
    assert sorted(on_disk(file)) == [["a", "b", "mine"], ["a", "b", "theirs"]]


def test_a_file_that_cannot_be_written_at_first_gets_what_was_said_meanwhile(store: Store, file: Path) -> None:
    conversation, _, answer = exchange(store, "a", "b")
    store.close()
    copy = Store.in_memory(file)
    copy.add(conversation, Role.USER, "goes on", parent=answer.id)
    copy.close()
    assert on_disk(file) == [["a", "b", "goes on"]]


def test_a_place_that_cannot_hold_the_first_file_is_tried_again_at_the_end(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("x")
    file = tmp_path / "plain" / "conversations.db"
    store = Store.open_anyway(file)
    exchange(store, "a", "b")
    (tmp_path / "plain").unlink()
    store.close()
    assert on_disk(file) == [["a", "b"]]


def test_a_folder_that_one_may_not_look_into_is_a_sentence(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as locked:
        locked.setattr(Path, "exists", refuse)
        store = Store.open_anyway(file)
        assert store.notice.startswith(f"The conversations cannot be kept in {file}: Permission denied.")
    store.close()


def test_nothing_said_is_nothing_written(store: Store, file: Path) -> None:
    exchange(store, "a", "b")
    store.close()
    before = file.read_bytes()
    copy = Store.in_memory(file)
    assert len(copy.summaries()) == 1
    copy.close()
    assert file.read_bytes() == before


def test_a_file_that_cannot_be_opened_is_read_all_the_same(
    store: Store, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange(store, "a", "b")
    store.close()

    def refuse(file: Path) -> None:
        raise StoreError("It cannot be written.", "Check the folder.")

    monkeypatch.setattr("app.chat.store.open_file", refuse)
    copy = Store.open_anyway(file)
    assert copy.notice == (
        "It cannot be written. Check the folder. Conversations are kept in memory only, until Tandem ends."
    )
    assert [each.title for each in copy.summaries()] == ["a"]
    copy.close()
