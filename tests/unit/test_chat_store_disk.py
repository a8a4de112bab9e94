"""A disk that refuses, and a file that cannot be opened: nothing that was said is lost."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import pytest

from app.chat.importing import read_file
from app.chat.message import Role
from app.chat.store import Store
from app.chat.tree import State
from app.errors import RescuedError, StoreError
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
    assert [node.state for node in on_disk.load(conversation).tree.path] == [State.COMPLETE, State.WRITING]
    on_disk.close()


class Refused:
    """What a disk does that refuses."""

    def __init__(self, message: str) -> None:
        self._message = message

    def __call__(self, *_: object) -> None:
        raise StoreError(self._message)


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
        full.setattr("app.chat.parting.make_same", Refused("The disk is full."))
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


@pytest.mark.parametrize("file_says", [[], [["a", "b"]]])
def test_two_that_began_something_new_beside_a_full_disk_both_come_back(
    store: Store, file: Path, monkeypatch: pytest.MonkeyPatch, file_says: list[list[str]]
) -> None:
    for prompt, answer in file_says:
        exchange(store, prompt, answer)
    other = Store.open(file)
    steps = iter([0, 0, 500, 5000])
    monkeypatch.setattr("app.chat.parting.randrange", lambda most: next(steps))
    for each, said in ((store, "mine"), (other, "theirs")):
        each.go_on_in_memory()
        exchange(each, said, "new")

    assert store.return_to_disk()
    assert other.return_to_disk()
    for each in (store, other):
        each.close()
    assert sorted(on_disk(file)) == sorted([*file_says, ["mine", "new"], ["theirs", "new"]])


@pytest.mark.parametrize("meanwhile", ["said in it", "begun another", "gone"])
def test_where_a_number_means_something_else_by_now_the_end_is_waited_for(
    store: Store, file: Path, monkeypatch: pytest.MonkeyPatch, meanwhile: str
) -> None:
    monkeypatch.setattr("app.chat.parting.randrange", lambda most: most >> 20)
    conversation, _, answer = exchange(store, "a", "b")
    store.go_on_in_memory()
    store.add(conversation, Role.USER, "mine", parent=answer.id)
    exchange(store, "mine", "too")
    if meanwhile == "gone":
        file.unlink()
    else:
        other = Store.open(file)
        if meanwhile == "said in it":
            other.add(conversation, Role.USER, "theirs", parent=answer.id)
        else:
            exchange(other, "theirs", "new")
        other.close()

    assert not store.return_to_disk()
    assert not store.on_disk
    store.close()
    theirs = {"said in it": [["a", "b", "theirs"]], "begun another": [["theirs", "new"]], "gone": []}[meanwhile]
    assert sorted(on_disk(file)) == sorted([["a", "b", "mine"], ["mine", "too"], *theirs])


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


@pytest.mark.parametrize("meanwhile", ["nothing", "begun another", "removed"])
def test_what_was_set_aside_in_memory_goes_with_its_conversation_under_whatever_number(
    store: Store, file: Path, monkeypatch: pytest.MonkeyPatch, meanwhile: str
) -> None:
    monkeypatch.setattr("app.chat.parting.randrange", lambda most: most >> 20)
    before, *_ = exchange(store, "a", "b")
    store.go_on_in_memory()
    mine, *_ = exchange(store, "mine", "new")
    store.set_aside("of mine", mine)
    store.set_aside("of before", before)
    with closing(Store.open(file)) as other:
        if meanwhile == "begun another":
            assert exchange(other, "theirs", "new")[0] == mine
        elif meanwhile == "removed":
            other.delete(before)
            other.purge(-1)
    if meanwhile != "begun another":
        assert store.return_to_disk()
    store.close()
    with closing(Store.open(file)) as after:
        assert {"of mine", "of before"} <= {one.text for one in after.typed(9)}
        [number] = [each.id for each in after.summaries() if each.title == "mine"]
        after.delete(number)
        left = {one.text for one in after.typed(9)}
        assert "of before" in left
        assert not left & {"mine", "of mine"}


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


def test_what_another_tandem_said_meanwhile_stays(store: Store, file: Path) -> None:
    conversation, _, answer = exchange(store, "a", "b")
    store.go_on_in_memory()
    store.add(conversation, Role.USER, "mine", parent=answer.id)
    other = Store.open(file)
    other.add(conversation, Role.USER, "theirs", parent=answer.id)
    other.close()
    store.close()
    assert sorted(on_disk(file)) == [["a", "b", "mine"], ["a", "b", "theirs"]]


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
        refused.setattr("app.chat.store.open_file", Refused("It cannot be written."))
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


@pytest.mark.parametrize("said", [False, True])
def test_what_a_crash_has_cut_is_nothing_that_was_said_since(
    store: Store, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: bool
) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    conversation = kill_in_an_answer(store)
    copy = open_refused(file, monkeypatch)
    assert [node.state for node in copy.load(conversation).tree.path] == [State.COMPLETE, State.CUT]
    if said:
        exchange(copy, "new", "too")
    monkeypatch.setattr("app.chat.parting.open_file", Refused("The disk is full."))
    if said:
        with pytest.raises(StoreError, match="What was said since is in"):
            copy.close()
    else:
        copy.close()
    rescued = [each.conversation.summary.title for file in tmp_path.glob("*.json") for each in read_file(file)]
    assert rescued == (["new"] if said else [])


def test_what_a_crash_has_cut_is_so_on_disk_too_as_soon_as_there_is_room(
    store: Store, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill_in_an_answer(store)
    copy = open_refused(file, monkeypatch)
    assert copy.return_to_disk()
    assert copy._database.rows("SELECT text, state FROM messages WHERE text = 'half'") == [("half", "cut")]
    copy.close()


def test_a_place_that_cannot_hold_the_first_file_is_tried_again_at_the_end(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("x")
    file = tmp_path / "plain" / "conversations.db"
    store = Store.open_anyway(file)
    exchange(store, "a", "b")
    (tmp_path / "plain").unlink()
    store.close()
    assert on_disk(file) == [["a", "b"]]


@pytest.mark.parametrize("room", ["home", "elsewhere", "nowhere"])
def test_what_the_disk_refuses_to_the_end_is_elsewhere_for_an_import(
    store: Store, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: str
) -> None:
    folders = {name: tmp_path / name for name in ("home", "elsewhere")}
    monkeypatch.setattr(Path, "home", lambda: folders["home"])
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(folders["elsewhere"]))
    for name, folder in folders.items():
        if name == room:
            folder.mkdir()
    conversation, _, answer = exchange(store, "a", "b")
    exchange(store, "untouched", "too")
    store.go_on_in_memory()
    store.add(conversation, Role.USER, "and on", parent=answer.id)
    monkeypatch.setattr("app.chat.parting.open_file", Refused("The disk is full."))

    with pytest.raises(StoreError, match=r"The disk is full\. What was said since is") as caught:
        store.close()
    rescued = [each for folder in folders.values() for each in folder.glob("*")]
    assert len(rescued) == (room != "nowhere")
    for each in rescued:
        assert caught.value.message.endswith(f"What was said since is in {each}.")
        assert isinstance(caught.value, RescuedError)
        assert caught.value.file == each
        assert [[node.text for node in read.conversation.tree.path] for read in read_file(each)] == [
            ["a", "b", "and on"]
        ]


def test_an_answer_on_its_way_that_the_disk_refuses_to_the_end_is_elsewhere_too(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    conversation, asked, _ = exchange(store, "a", "b")
    journal = store.answer(conversation, asked.id)
    journal.add("x" * 100_000)
    fill(store)
    monkeypatch.setattr("app.chat.parting.open_file", Refused("The disk is full."))
    with pytest.raises(StoreError, match="What was said since is in"):
        store.close()
    (rescued,) = tmp_path.glob("*.json")
    assert [node.text for node in read_file(rescued)[0].conversation.tree.path] == ["a", "x" * 100_000]


def test_what_is_said_beside_a_file_of_a_newer_tandem_is_elsewhere_in_the_end(store: Store, file: Path) -> None:
    exchange(store, "theirs", "too")
    store._database.connection.execute("PRAGMA user_version = 99")
    store.close()
    before = file.read_bytes()
    older = Store.open_anyway(file)
    assert older.notice.endswith("nothing was changed. Conversations are kept in memory only, until Tandem ends.")
    exchange(older, "mine", "and yours")
    with pytest.raises(StoreError, match="newer Tandem"):
        assert not older.return_to_disk()
    with pytest.raises(RescuedError, match="What was said since is in") as caught:
        older.close()
    assert file.read_bytes() == before
    (read,) = read_file(caught.value.file)
    assert [node.text for node in read.conversation.tree.path] == ["mine", "and yours"]


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

    def refuse(file: Path) -> None:
        raise StoreError("It cannot be written.", "Check the folder.")

    monkeypatch.setattr("app.chat.store.open_file", refuse)
    copy = Store.open_anyway(file)
    assert copy.notice == (
        "It cannot be written. Check the folder. They are kept in memory, and written as soon as the disk takes them."
    )
    assert [each.title for each in copy.summaries()] == ["a"]
    copy.close()
