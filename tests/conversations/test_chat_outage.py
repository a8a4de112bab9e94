"""A disk that refuses, and a file that cannot be opened: nothing that was said is lost."""

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
from tests.conversations.stores import Clock, exchange


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
    assert [node.state for node in on_disk.load(conversation).tree.path] == [State.COMPLETE, State.WRITING]
    on_disk.close()


def refuse(*_: object, **__: object) -> None:
    """Act like a disk that refuses."""
    raise StoreError("The disk is full.", "Free some space.")


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


def test_what_a_full_disk_refused_is_written_as_soon_as_there_is_room(store: Store, file: Path) -> None:
    conversation, asked, _ = exchange(store, "a", "b")
    dropped = store.answer(conversation, asked.id)
    journal = store.answer(conversation, asked.id)
    journal.add("on disk, ")
    journal.flush()
    fill(store)
    store.go_on_in_memory()
    dropped.discard()
    journal.add("in memory, ")
    journal.flush()
    new, *_ = exchange(store, "new", "too")
    store.keep_unsent("half a thought")
    before = store.load(conversation), store.load(new)

    assert store.return_to_disk()
    assert store.on_disk
    assert (store.load(conversation), store.load(new)) == before
    other = Store.open(file)
    assert (other.load(conversation), other.load(new)) == before
    assert (journal.node.state, other.take_unsent()) == (State.WRITING, ""), "it is known to be alive"
    journal.add("and on disk again")
    done = journal.finish(State.COMPLETE)
    assert other.load(conversation).tree.nodes[done.id].text == "on disk, in memory, and on disk again"
    assert [len(other.search(text)) for text in ("memory", "again", "too")] == [1, 1, 1]
    other._database.connection.execute("INSERT INTO found(found, rank) VALUES ('integrity-check', 1)")
    assert other._database.rows("SELECT count(*) FROM journal") == [(0,)]
    other.close()
    assert not store.return_to_disk(), "it is there"


def test_why_a_prompt_has_no_answer_is_written_as_soon_as_there_is_room(store: Store, file: Path, clock: Clock) -> None:
    _, asked, _ = exchange(store, "a", "b")
    store.go_on_in_memory()
    clock.now += 1.0
    store.set_stats(asked.id, {"why": "It broke."})
    assert store.return_to_disk()
    assert store.stats(asked.id) == {"why": "It broke."}


def test_a_disk_that_still_refuses_takes_nothing_and_loses_nothing(
    store: Store, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conversation, _, answer = exchange(store, "a", "b")
    store.go_on_in_memory()
    store.add(conversation, Role.USER, "mine", parent=answer.id)

    with monkeypatch.context() as full:
        full.setattr("app.conversations.outage.open_file", refuse)
        with pytest.raises(StoreError, match="full"):
            store.return_to_disk()
    assert not store.on_disk
    assert on_disk(file) == [["a", "b"]]
    store.close()
    assert not list(file.parent.glob("*writer*"))
    assert on_disk(file) == [["a", "b", "mine"]]


def test_an_answer_that_goes_on_in_memory_is_nobody_elses_to_end(store: Store, file: Path) -> None:
    conversation, asked, _ = exchange(store, "a", "b")
    journal = store.answer(conversation, asked.id)
    store.go_on_in_memory()
    journal.add("said in memory")
    Store.open(file).close()
    done = journal.finish(State.COMPLETE)

    assert store.return_to_disk()
    assert on_disk(file) == [["a", "said in memory"]]
    assert store.load(conversation).tree.leaf == done.id


def test_two_that_left_a_full_disk_both_come_back(store: Store, file: Path) -> None:
    mine, _, my_answer = exchange(store, "a", "b")
    theirs, _, their_answer = exchange(store, "c", "d")
    other = Store.open(file)
    for each in (store, other):
        each.go_on_in_memory()
    store.add(mine, Role.USER, "mine", parent=my_answer.id)
    other.add(theirs, Role.USER, "theirs", parent=their_answer.id)

    assert store.return_to_disk()
    assert other.return_to_disk()
    assert other.load(mine) == store.load(mine)
    assert other.load(theirs) == store.load(theirs)
    for each in (store, other):
        each.close()
    assert sorted(on_disk(file)) == [["a", "b", "mine"], ["c", "d", "theirs"]]


def test_what_was_typed_in_memory_where_nothing_was_said_waits_for_the_next_run(store: Store, file: Path) -> None:
    store.keep_unsent("on disk")
    store.go_on_in_memory()
    store.keep_unsent("in memory")
    store.close()
    after = Store.open(file)
    assert after.take_unsent() == "in memory"
    assert after._database.rows("SELECT count(*) FROM unsent") == [(1,)]
    after.close()


def test_what_was_set_aside_in_memory_is_found_in_the_next_run(store: Store, file: Path) -> None:
    store.set_aside("on disk")
    store.go_on_in_memory()
    store.set_aside("in memory")
    store.close()
    with closing(Store.open(file)) as after:
        assert {one.text for one in after.typed(9)} == {"on disk", "in memory"}


def test_an_answer_that_began_before_the_disk_refused_is_written_whole(store: Store, file: Path) -> None:
    conversation, asked, _ = exchange(store, "a", "b")
    journal = store.answer(conversation, asked.id)
    journal.add("on disk, ")
    journal.flush()
    store.go_on_in_memory()
    journal.add("in memory")
    store.close()
    assert on_disk(file) == [["a", "on disk, in memory"]]


def test_what_the_disk_refuses_of_an_answer_until_the_program_ends_is_not_lost(store: Store, file: Path) -> None:
    conversation, asked, _ = exchange(store, "a", "b")
    journal = store.answer(conversation, asked.id)
    journal.add("x" * 100_000)
    fill(store)
    journal.flush()
    assert journal.trouble is not None
    store.close()
    assert on_disk(file) == [["a", "x" * 100_000]]


def test_a_file_that_cannot_be_written_at_first_gets_what_was_said_meanwhile(
    store: Store, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conversation, _, answer = exchange(store, "a", "b")
    store.close()
    copy = open_refused(file, monkeypatch)
    copy.add(conversation, Role.USER, "goes on", parent=answer.id)
    copy.close()
    assert on_disk(file) == [["a", "b", "goes on"]]


def open_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """What opening makes of a file that cannot be written just then."""
    with monkeypatch.context() as refused:
        refused.setattr("app.conversations.store.open_file", refuse)
        return Store.open_anyway(file)


def kill_in_an_answer(store: Store) -> int:
    """Let go of the file as the end of a process does; returns the conversation that had an answer on its way."""
    conversation, asked, _ = exchange(store, "a", "b")
    journal = store.answer(conversation, asked.id)
    journal.add("half")
    journal.flush()
    store._writers.close()
    store._database.close()
    return conversation


def test_what_a_crash_has_cut_is_so_in_a_copy(store: Store, file: Path) -> None:
    conversation = kill_in_an_answer(store)
    copy = Store.in_memory(file)
    assert [node.state for node in copy.load(conversation).tree.path] == [State.COMPLETE, State.CUT]
    copy.close()


def test_what_another_tandem_is_writing_is_not_cut_in_a_copy(store: Store, file: Path) -> None:
    conversation, asked, _ = exchange(store, "a", "b")
    journal = store.answer(conversation, asked.id)
    journal.add("half")
    journal.flush()
    copy = Store.in_memory(file)
    (*_, answer) = copy.load(conversation).tree.path
    assert (answer.text, answer.state) == ("half", State.WRITING)
    copy.close()


def test_of_a_file_that_is_not_there_a_copy_is_empty_and_leaves_nothing(tmp_path: Path) -> None:
    copy = Store.in_memory(tmp_path / "nowhere" / "conversations.db")
    assert copy.summaries() == ()
    copy.close()
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_hold_the_first_file_is_tried_again_at_the_end(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("x")
    file = tmp_path / "plain" / "conversations.db"
    store = Store.open_anyway(file)
    exchange(store, "a", "b")
    (tmp_path / "plain").unlink()
    store.close()
    assert on_disk(file) == [["a", "b"]]


def test_a_folder_that_one_may_not_look_into_is_a_sentence(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as locked:
        locked.setattr(Path, "stat", forbid_looking)
        store = Store.open_anyway(file)
        assert store.notice.startswith(f"The conversations cannot be kept in {file}: Permission denied.")
    store.close()


def forbid_looking(self: Path, **_: object) -> os.stat_result:
    raise PermissionError(13, "Permission denied")


def test_a_folder_that_one_may_not_look_into_for_a_while_takes_what_was_said_meanwhile(
    store: Store, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conversation, _, answer = exchange(store, "a", "b")
    with monkeypatch.context() as locked:
        locked.setattr(Path, "stat", forbid_looking)
        with pytest.raises(StoreError, match="Permission denied"):
            store.add(conversation, Role.USER, "and on", parent=answer.id)
        store.go_on_in_memory()
        store.add(conversation, Role.USER, "and on", parent=answer.id)
        with pytest.raises(StoreError, match="Permission denied"):
            store.return_to_disk()
    assert store.return_to_disk()
    assert on_disk(file) == [["a", "b", "and on"]]


def test_nothing_said_is_nothing_written(store: Store, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exchange(store, "a", "b")
    store.close()
    before = file.read_bytes()
    copy = open_refused(file, monkeypatch)
    assert len(copy.summaries()) == 1
    copy.close()
    assert file.read_bytes() == before


def test_a_file_that_cannot_be_opened_is_read_all_the_same(
    store: Store, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange(store, "a", "b")
    store.close()

    monkeypatch.setattr("app.conversations.store.open_file", refuse)
    copy = Store.open_anyway(file)
    assert copy.notice == ("The disk is full. Free some space. Tandem saves them as soon as it can.")
    assert [each.title for each in copy.summaries()] == ["a"]
    copy.close()


def test_an_outage_ends_with_the_branches_of_both_where_another_tandem_went_on(store: Store, file: Path) -> None:
    conversation, _, answer = exchange(store, "a", "b")
    store.go_on_in_memory()
    mine = store.add(conversation, Role.USER, "mine", parent=answer.id)
    with closing(Store.open(file)) as other:
        theirs = other.add(conversation, Role.USER, "theirs", parent=answer.id)
    store.close()

    with closing(Store.open(file)) as after:
        tree = after.load(conversation).tree
        assert [node.id for node in tree.replies(answer.id)] == sorted([theirs.id, mine.id])
        assert tree.leaf == mine.id


def test_two_that_began_conversations_in_an_outage_both_come_back(store: Store, file: Path) -> None:
    exchange(store, "a", "b")
    other = Store.open(file)
    for each, said in ((store, "mine"), (other, "theirs")):
        each.go_on_in_memory()
        exchange(each, said, "new")
    for each in (store, other):
        assert each.return_to_disk()
        each.close()

    assert sorted(on_disk(file)) == [["a", "b"], ["mine", "new"], ["theirs", "new"]]


def test_a_file_that_was_removed_is_written_anew_with_everything(store: Store, file: Path) -> None:
    exchange(store, "a", "b")
    conversation, _, answer = exchange(store, "c", "d")
    for path in file.parent.iterdir():
        path.unlink()
    with pytest.raises(StoreError, match="moved, removed or replaced"):
        store.add(conversation, Role.USER, "and on", parent=answer.id)
    store.go_on_in_memory()
    store.add(conversation, Role.USER, "and on", parent=answer.id)

    assert store.return_to_disk()
    assert sorted(on_disk(file)) == [["a", "b"], ["c", "d", "and on"]]


def test_other_conversations_in_the_place_of_the_file_are_left_alone(store: Store, file: Path, tmp_path: Path) -> None:
    conversation, _, answer = exchange(store, "a", "b")
    with closing(Store.open(tmp_path / "other.db")) as other:
        exchange(other, "theirs", "too")
    store.go_on_in_memory()
    store.add(conversation, Role.USER, "mine", parent=answer.id)
    (tmp_path / "other.db").replace(file)

    with pytest.raises(StoreError, match="taken the place"):
        store.return_to_disk()
    with pytest.raises(StoreError, match="The latest messages are lost"):
        store.close()
    assert on_disk(file) == [["theirs", "too"]]


def test_what_was_set_aside_in_an_outage_goes_with_its_conversation(store: Store, file: Path) -> None:
    before, *_ = exchange(store, "a", "b")
    store.go_on_in_memory()
    mine, *_ = exchange(store, "mine", "new")
    store.set_aside("of mine", mine)
    store.set_aside("of before", before)
    with closing(Store.open(file)) as other:
        other.delete(before)
        other.purge(-1)

    assert store.return_to_disk()
    assert {"of mine", "of before"} <= {one.text for one in store.typed(9)}
    store.delete(mine)
    left = {one.text for one in store.typed(9)}
    assert "of before" in left
    assert not left & {"mine", "of mine"}


def test_a_disk_that_refuses_to_the_end_is_a_sentence(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    exchange(store, "a", "b")
    store.go_on_in_memory()
    exchange(store, "c", "d")
    monkeypatch.setattr("app.conversations.outage.open_file", refuse)

    with pytest.raises(StoreError) as caught:
        store.close()
    assert caught.value.sentences == "The disk is full. The latest messages are lost. Free some space."


def test_a_file_of_a_newer_tandem_is_left_alone_and_that_is_said(store: Store, file: Path) -> None:
    exchange(store, "theirs", "too")
    store._database.connection.execute("PRAGMA user_version = 99")
    store.close()
    before = file.read_bytes()
    older = Store.open_anyway(file)
    assert older.notice.endswith("nothing was changed. Conversations are kept in memory only, until Tandem ends.")
    exchange(older, "mine", "and yours")
    with pytest.raises(StoreError, match="newer Tandem"):
        older.return_to_disk()
    with pytest.raises(StoreError, match="newer Tandem"):
        older.close()
    assert file.read_bytes() == before


def test_what_is_said_after_the_file_broke_goes_into_the_backup(store: Store, file: Path) -> None:
    exchange(store, "a", "b")
    back_up_daily(file)
    conversation, *_ = exchange(store, "c", "d")
    for path in file.parent.glob("conversations.db*"):
        if "writer" not in path.name:
            path.write_bytes(b"no database at all" * 1000)
    with pytest.raises(StoreError, match="damaged"):
        store.load(conversation)
    assert not store.go_on_in_memory()
    exchange(store, "e", "f")

    assert store.return_to_disk()
    assert "opened the backup of" in store.notice
    store.close()
    assert sorted(on_disk(file)) == [["a", "b"], ["e", "f"]]
