"""The list of conversations, deleted ones, and typed text that was not sent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from app.session.session import Session
from app.session.state import Idle
from tests.conversations.stores import kill as kill_store
from tests.fake_engine import FakeEngine
from tests.session.scripted import ScriptedSession
from tests.settings.in_memory import in_memory


def listed(chat: ScriptedSession) -> list[int]:
    other = chat.other
    found = [summary.id for summary in other.summaries()]
    other.close()
    return found


def again(chat: ScriptedSession) -> ScriptedSession:
    """Another Tandem on the same file."""
    return ScriptedSession(chat.file)


# Typed text


def test_nothing_is_listed_before_the_first_prompt(chat: ScriptedSession) -> None:
    chat.session.new_conversation("half a thought")
    chat.session.handle(Idle(0.2))
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
    assert (chat.library.summaries(), chat.library.has_deleted(first)) == ((), True)
    assert chat.library.undelete() == first
    assert not chat.library.has_deleted(first)
    assert chat.library.undelete() is None
    assert len(chat.library.summaries()) == 1


def test_what_an_import_restores_cannot_be_restored_once_more(chat: ScriptedSession) -> None:
    first = chat.exchange("a", "b")
    chat.library.delete(first)
    chat.library.restore([first])
    assert [summary.id for summary in chat.library.summaries()] == [first]
    assert not chat.library.can_undelete


def test_deletions_of_an_earlier_run_are_undone_last_first(chat: ScriptedSession) -> None:
    first = chat.exchange("a", "b")
    chat.session.new_conversation()
    second = chat.exchange("c", "d")
    chat.library.delete(second)
    chat.library.delete(first)
    chat.session.close()
    later = again(chat)
    assert later.library.can_undelete
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
    session = Session(FakeEngine(), "A pair", in_memory())
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
