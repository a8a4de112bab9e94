"""Conversations on a disk: the list, unsent text, deletions, and a disk that refuses."""

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from app.conversations.message import Role
from app.conversations.store import Store
from app.conversations.tree import State
from app.core.errors import StoreError
from app.session.library import Library
from app.session.session import Session
from tests.conversations.stores import Clock, exchange, fill_disk, free_disk, texts
from tests.conversations.stores import kill as kill_store
from tests.fake_engine import FakeEngine
from tests.fake_tools import no_tools
from tests.session.scripted import ScriptedSession
from tests.settings.in_memory import in_memory


def listed(chat: ScriptedSession) -> list[int]:
    other = chat.other
    found = [summary.id for summary in other.summaries()]
    other.close()
    return found


def again(chat: ScriptedSession) -> ScriptedSession:
    """Return another Tandem on the same file."""
    return ScriptedSession(chat.file)


# Typed text


def test_nothing_is_listed_before_the_first_prompt(chat: ScriptedSession) -> None:
    chat.session.new_conversation("half a thought")
    chat.session.save_due(0.2)
    assert chat.library.summaries() == ()


@pytest.mark.parametrize("kill", [False, True])
def test_typed_text_waits_for_the_next_runs(chat: ScriptedSession, kill: bool) -> None:
    chat.conversation.set_unsent_text("half a thought")
    if kill:
        kill_store(chat.store)
    else:
        chat.session.close()
    for _ in range(2):
        later = again(chat)
        assert later.conversation.take_unsent_text() == "half a thought"
        later.session.close()


def test_typed_text_of_a_running_tandem_is_its_own(chat: ScriptedSession) -> None:
    chat.conversation.set_unsent_text("mine")
    other = again(chat)
    assert other.conversation.take_unsent_text() == ""
    other.session.close("the other's")
    chat.session.close("mine")
    assert again(chat).conversation.take_unsent_text() == "the other's"


@pytest.mark.parametrize(
    "end", [lambda chat: chat.session.send("x"), lambda chat: chat.conversation.set_unsent_text("")]
)
def test_text_that_was_sent_or_removed_does_not_come_again(
    chat: ScriptedSession, end: Callable[[ScriptedSession], object]
) -> None:
    chat.conversation.set_unsent_text("half a thought")
    end(chat)
    chat.session.close()
    assert again(chat).conversation.take_unsent_text() == ""


# Deleted conversations


def test_a_deleted_conversation_is_restored(chat: ScriptedSession) -> None:
    first = chat.exchange("a", "b")
    chat.library.delete(first)
    assert (chat.library.summaries(), chat.library.deleted) == ((), (first,))
    assert chat.library.undelete() == first
    assert chat.library.deleted == ()
    assert chat.library.undelete() is None
    assert len(chat.library.summaries()) == 1


def test_deletions_of_an_earlier_run_are_undone_last_first(chat: ScriptedSession) -> None:
    first = chat.exchange("a", "b")
    chat.session.new_conversation()
    second = chat.exchange("c", "d")
    chat.library.delete(second)
    chat.library.delete(first)
    chat.session.close()
    later = again(chat)
    assert [later.library.undelete() for _ in range(3)] == [first, second, None]
    assert {summary.id for summary in later.library.summaries()} == {first, second}
    later.session.close()


def test_typed_text_does_not_restore_a_conversation_deleted_here(chat: ScriptedSession) -> None:
    conversation = chat.exchange("a", "b")
    chat.library.delete(conversation)
    chat.session.new_conversation("typed meanwhile")
    assert listed(chat) == []
    assert chat.other.load(conversation).unsent_text == "typed meanwhile"


def test_without_a_store_conversations_stay_in_memory() -> None:
    session = Session(FakeEngine(), "A pair", in_memory(), no_tools())
    assert not session.library.has_history
    session.library.open_store()
    session.new_conversation("typed")
    assert session.conversation.unsent_text == "typed"
    assert not session.library.is_open
    session.close()


def test_stored_caches_of_deleted_conversations_are_cleaned_up(
    chat: ScriptedSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.conversations.state_folder.states_dir", lambda: tmp_path / "states")
    kept = chat.exchange("a", "b")
    files = [tmp_path / "states" / "pair" / f"{number}.state" for number in (kept, kept + 1)]
    files[0].parent.mkdir(parents=True)
    for file in files:
        file.write_bytes(b"")
    chat.library.maintain()
    assert [file.exists() for file in files] == [True, False]


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
