"""A disk that refuses is an error, and everything is written as soon as it works again."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import pytest

from app.conversations.backup import back_up_daily
from app.conversations.message import Role
from app.conversations.store import Store
from app.conversations.tree import State
from app.core.errors import StoreError
from tests.conversations.stores import exchange, fill_disk, texts


def refuse(*_: object, **__: object) -> None:
    raise StoreError("The disk is full.", "Free some space.")


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


def test_a_full_disk_is_an_error_and_the_answer_goes_on(store: Store, file: Path) -> None:
    conversation, asked, _ = exchange(store, "a", "b")
    journal = store.answer(conversation, asked.id)
    fill_disk(store)
    journal.add("x" * 100_000)
    journal.flush()
    assert journal.trouble is not None
    assert "is full" in journal.trouble.message
    with pytest.raises(StoreError, match="is full"):
        journal.finish(State.STOPPED)

    store.continue_in_memory()
    done = journal.finish(State.STOPPED)
    more = store.add(conversation, Role.USER, "and on", parent=done.id)
    assert [node.id for node in store.load(conversation).tree.path] == [asked.id, done.id, more.id]
    assert len(store.load(conversation).tree.path[1].text) == 100_000


def test_all_changes_are_written_when_the_disk_works_again(store: Store, file: Path) -> None:
    renamed, *_ = exchange(store, "r", "s")
    dropped, *_ = exchange(store, "p", "q")
    conversation, asked, _ = exchange(store, "a", "b")
    journal = store.answer(conversation, asked.id)
    journal.add("on disk, ")
    journal.flush()
    fill_disk(store)
    assert store.continue_in_memory()
    assert not store.on_disk
    journal.add("in memory, ")
    journal.flush()
    new, *_ = exchange(store, "new", "too")
    store.set_stats(asked.id, {"why": "It broke."})
    store.rename(renamed, "Another title")
    store.delete(dropped)
    store.keep_unsent("half a thought")
    before = store.load(conversation), store.load(new)
    with closing(Store.open(file)) as other:
        assert len(other.summaries()) == 3

    assert store.return_to_disk()
    assert store.on_disk
    assert not store.return_to_disk(), "it is there"
    with closing(Store.open(file)) as other:
        assert (other.load(conversation), other.load(new)) == before
        assert {each.title for each in other.summaries()} == {"a", "new", "Another title"}
        assert other.stats(asked.id) == {"why": "It broke."}
        assert [len(other.search(text)) for text in ("too", "Another")] == [1, 1]
        other.database.connection.execute("INSERT INTO found(found, rank) VALUES ('integrity-check', 1)")
    journal.add("and on disk again")
    journal.finish(State.COMPLETE)
    store.close()
    with closing(Store.open(file)) as other:
        assert other.load(conversation).tree.path[-1].text == "on disk, in memory, and on disk again"
        assert other.database.rows("SELECT count(*) FROM journal") == [(0,)]
        assert other.take_unsent() == "half a thought"


def test_what_the_disk_refused_is_written_at_the_end(store: Store, file: Path) -> None:
    conversation, asked, _ = exchange(store, "a", "b")
    journal = store.answer(conversation, asked.id)
    journal.add("x" * 100_000)
    fill_disk(store)
    journal.flush()
    assert journal.trouble is not None
    store.close()
    with closing(Store.open(file)) as after:
        answer = after.load(conversation).tree.path[-1]
        assert (answer.text, answer.state) == ("x" * 100_000, State.CUT)


def test_a_disk_that_still_refuses_takes_nothing_and_loses_nothing(
    store: Store, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conversation, _, answer = exchange(store, "a", "b")
    store.continue_in_memory()
    store.add(conversation, Role.USER, "mine", parent=answer.id)

    with monkeypatch.context() as full:
        full.setattr("app.conversations.memory_fallback.open_file", refuse)
        with pytest.raises(StoreError, match="full"):
            store.return_to_disk()
    assert not store.on_disk
    assert texts(file) == [["a", "b"]]
    store.close()
    assert texts(file) == [["a", "b", "mine"]]


def test_a_disk_that_refuses_to_the_end_is_an_error(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.continue_in_memory()
    exchange(store, "c", "d")
    monkeypatch.setattr("app.conversations.memory_fallback.open_file", refuse)

    with pytest.raises(StoreError) as caught:
        store.close()
    assert caught.value.sentences == "The disk is full. The latest messages are lost. Free some space."


def test_two_tandems_that_left_a_full_disk_both_come_back(store: Store, file: Path) -> None:
    shared, _, answer = exchange(store, "a", "b")
    other = Store.open(file)
    for each, said in ((store, "mine"), (other, "theirs")):
        each.continue_in_memory()
        each.add(shared, Role.USER, said, parent=answer.id)
        exchange(each, said, "new")
    for each in (store, other):
        assert each.return_to_disk()
    replies = store.load(shared).tree.replies(answer.id)
    assert sorted(node.text for node in replies) == ["mine", "theirs"]
    assert len(store.summaries()) == 3
    other.close()


def test_a_file_that_cannot_be_opened_takes_what_was_said_later(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(Store.open(file)) as store:
        exchange(store, "a", "b")
    with monkeypatch.context() as full:
        full.setattr("app.conversations.store.open_file", refuse)
        store = Store.open_anyway(file)
    assert store.notice == "The disk is full. Free some space. Tandem saves them as soon as it can."
    exchange(store, "c", "d")
    assert store.return_to_disk()
    store.close()
    assert texts(file) == [["a", "b"], ["c", "d"]]


def test_nothing_said_is_nothing_written(store: Store, file: Path) -> None:
    exchange(store, "a", "b")
    store.close()
    before = file.read_bytes()
    copy = Store.open(file)
    copy.continue_in_memory()
    copy.close()
    assert file.read_bytes() == before


def test_a_file_of_a_newer_tandem_is_left_alone(store: Store, file: Path) -> None:
    exchange(store, "theirs", "too")
    store.database.connection.execute("PRAGMA user_version = 99")
    store.close()
    before = file.read_bytes()
    older = Store.open_anyway(file)
    assert "newer Tandem" in older.notice
    exchange(older, "mine", "and yours")
    for write in (older.return_to_disk, older.close):
        with pytest.raises(StoreError, match="newer Tandem"):
            write()
    assert file.read_bytes() == before


def test_what_is_said_after_the_file_broke_goes_into_the_backup(store: Store, file: Path) -> None:
    exchange(store, "a", "b")
    back_up_daily(file)
    conversation, *_ = exchange(store, "c", "d")
    for path in file.parent.glob("conversations.db*"):
        path.write_bytes(b"no database at all" * 1000)
    with pytest.raises(StoreError, match="damaged"):
        store.load(conversation)
    assert not store.continue_in_memory()
    exchange(store, "e", "f")

    assert store.return_to_disk()
    assert "opened the backup of" in store.notice
    store.close()
    assert texts(file) == [["a", "b"], ["e", "f"]]
