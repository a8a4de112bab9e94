"""Prompts, answers and branches, and their storage."""

import sqlite3

import pytest

from app.conversations.message import Ending, Role
from app.conversations.tree import Node, State
from app.core.errors import AppError
from app.engine.types import FinishReason
from tests.session.scripted import BROKEN, ScriptedSession

FAILED = {"error": {"message": "It broke.", "hint": "Fix it."}}


def remove_elsewhere(chat: ScriptedSession) -> None:
    with sqlite3.connect(chat.file) as db:
        db.execute("PRAGMA foreign_keys = ON")
        db.execute("DELETE FROM conversations")
    db.close()


def last(chat: ScriptedSession) -> Node:
    """Return the last stored message; the session has the same message."""
    node = chat.other.load(1).tree.path[-1]
    assert chat.conversation.tree.path[-1] == node
    return node


# Answers


def test_an_answer_is_stored_with_its_numbers(chat: ScriptedSession) -> None:
    chat.session.send("Why?")
    chat.says("hm", thinking=True)
    chat.answers("Because.")
    assert chat.path() == [("Why?", "", State.COMPLETE), ("Because.", "hm", State.COMPLETE)]
    stats = chat.other.load(1).tree.nodes[2].stats
    assert (stats["predicted_per_second"], stats["acceptance"], stats["target"]) == (
        pytest.approx(106.7, abs=0.1),
        0.78,
        "Qwen2.5-Coder-32B-Instruct Q4_K_M",
    )


@pytest.mark.parametrize(
    ("ending", "state"),
    [
        (Ending(FinishReason.STOP), State.COMPLETE),
        (Ending(FinishReason.CANCELLED), State.STOPPED),
        (Ending(FinishReason.LENGTH), State.CUT),
        (Ending(FinishReason.CONTEXT), State.CUT),
        (Ending(FinishReason.REPETITION, 7, at_limit=True), State.CUT),
    ],
)
def test_the_end_of_an_answer_is_stored(chat: ScriptedSession, ending: Ending, state: State) -> None:
    chat.session.send("Why?")
    chat.says("Bec")
    assert ending.reason is not None
    chat.finishes("Bec", ending.reason, ending.repeats)
    assert (last(chat).text, last(chat).state, last(chat).ending) == ("Bec", state, ending)


def test_shown_text_is_on_disk_before_the_session_is_idle_for_long(
    chat: ScriptedSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.conversations.journal.ON_DISK_S", 3600.0)
    chat.session.send("Count.")
    chat.says("one")
    chat.session.save_due(1.0)
    assert chat.texts()[-1] == ""
    chat.session.save_due(3600.0)
    assert chat.path()[-1] == ("one", "", State.WRITING)


def test_closing_cuts_the_running_answer(chat: ScriptedSession) -> None:
    chat.session.send("Count.")
    chat.says("one")
    chat.session.close("typed")
    assert chat.path(1)[-1] == ("one", "", State.CUT)
    assert chat.other.load(1).unsent_text == "typed"


def test_an_empty_answer_leaves_none_and_its_prompt_is_used_again(chat: ScriptedSession) -> None:
    chat.session.send("a")
    outcome = chat.finishes("", FinishReason.CANCELLED)
    assert (outcome.counts, outcome.reverted, outcome.prompt) == (False, False, "a")
    assert (chat.texts(), last(chat).ending) == (["a"], Ending(FinishReason.CANCELLED))
    chat.session.send("a")
    chat.fails()
    assert last(chat).ending.numbers == FAILED
    chat.exchange("a", "b")
    assert len(chat.other.load(1).tree.nodes) == 2


@pytest.mark.parametrize("state", [State.FAILED, State.CUT])
def test_an_unusable_stored_answer_is_shown_and_not_continued_from(chat: ScriptedSession, state: State) -> None:
    store = chat.other
    number = store.create()
    asked = store.add(number, Role.USER, "a", parent=None)
    store.answer(number, asked.id).finish(state, reasoning="thought only")
    assert chat.session.open_conversation(number)
    assert len(chat.session.messages) == 2
    chat.session.send("a")
    assert chat.read == ["a"]
    chat.answers("b")
    assert chat.texts(number) == ["a", "b"]


# Other answers, and continued answers


def test_a_complete_answer_is_not_continued(chat: ScriptedSession) -> None:
    chat.exchange("a", "b")
    with pytest.raises(AppError, match="cannot be continued"):
        chat.session.resume(2)


def test_a_killed_continuation_forgets_how_its_first_part_ended(chat: ScriptedSession) -> None:
    chat.exchange("a", "one ", FinishReason.CONTEXT)
    chat.session.resume(2)
    chat.says("two")
    chat.session.close()
    node = chat.other.load(1).tree.path[-1]
    assert (node.text, node.state, node.ending) == ("one two", State.CUT, Ending())


def test_earlier_answers_in_the_same_place_are_reported_to_the_engine(chat: ScriptedSession) -> None:
    def beside() -> tuple[str, ...]:
        return chat.engine.requests[-1].beside

    chat.exchange("a", "b")
    chat.session.send("c")
    assert beside() == ()
    chat.says("thought", thinking=True)
    chat.answers("d")
    chat.session.regenerate()
    assert beside() == ("thought", "d")
    chat.answers("e", FinishReason.LENGTH)
    chat.session.resume(chat.node("e"))
    assert beside() == ("thought", "d")
    chat.says("f")
    chat.finishes("ef")
    chat.session.edit(chat.node("c"), "instead")
    assert beside() == ("ef", "thought", "d")


# Branches


@pytest.mark.parametrize("is_empty", [True, False])
def test_unknown_messages_are_refused(chat: ScriptedSession, is_empty: bool) -> None:
    session = chat.session
    if not is_empty:
        chat.exchange("a", "b")
    for command in (session.regenerate, session.switch, session.resume, session.delete, session.fork):
        with pytest.raises(AppError):
            command(7)
    for change in (session.edit, session.rewrite):
        with pytest.raises(AppError):
            change(7, "x")


# Switching between conversations


def test_typed_text_waits_for_the_return(chat: ScriptedSession) -> None:
    first = chat.exchange("a", "b")
    chat.session.new_conversation("for the first")
    assert chat.conversation.unsent_text == ""
    second = chat.exchange("c", "d")
    assert chat.session.open_conversation(first, "for the second")
    assert chat.conversation.unsent_text == "for the first"
    assert chat.other.load(second).unsent_text == "for the second"
    chat.exchange("f", "g")
    assert chat.texts(first) == ["a", "b", "f", "g"]
    assert chat.other.load(first).unsent_text == ""


def test_an_empty_conversation_has_its_own_typed_text(chat: ScriptedSession) -> None:
    first = chat.exchange("a", "b")
    chat.session.new_conversation()
    chat.session.open_conversation(first, "not yet sent")
    chat.session.new_conversation()
    assert chat.conversation.unsent_text == "not yet sent"


# A disk that fails


def test_a_full_disk_refuses_prompts_and_keeps_the_answer(chat: ScriptedSession) -> None:
    chat.exchange("a", "b")
    chat.session.send("c")
    connection = chat.store.database.connection
    connection.execute("PRAGMA query_only = ON")
    chat.answers("d")
    assert len(chat.said) == 1, "the answer that is not on disk is reported"
    with pytest.raises(AppError, match="was not sent"):
        chat.session.send("e")
    assert [node.text for node in chat.conversation.messages] == ["a", "b", "c", "d"]
    assert chat.texts() == ["a", "b", "c", ""]
    connection.execute("PRAGMA query_only = OFF")
    chat.library.maintain()
    assert chat.said[-1] == "All messages are saved again."
    chat.exchange("e", "f")
    assert chat.texts(1) == ["a", "b", "c", "d", "e", "f"]


def test_a_prompt_in_a_removed_conversation_is_refused(chat: ScriptedSession) -> None:
    chat.exchange("a", "b")
    remove_elsewhere(chat)
    with pytest.raises(AppError):
        chat.session.regenerate()
    with pytest.raises(AppError):
        chat.session.send("c")
    assert len(chat.said) == 1


def test_a_failed_answer_in_a_removed_conversation_stays_in_memory(chat: ScriptedSession) -> None:
    chat.session.send("a")
    chat.says("half")
    remove_elsewhere(chat)
    chat.fails(BROKEN)
    assert [node.text for node in chat.session.messages] == ["a", "half"]


# Messages removed, conversations copied


def test_a_removed_message_is_not_restored_behind_newer_ones(chat: ScriptedSession) -> None:
    chat.exchange("a", "b")
    chat.session.delete(chat.node("b"))
    chat.exchange("c", "d")
    assert not chat.conversation.can_undelete
    with pytest.raises(AppError, match="was not restored"):
        chat.session.undelete()


def test_a_message_that_the_disk_keeps_is_not_removed(chat: ScriptedSession) -> None:
    chat.exchange("a", "b")
    chat.store.database.connection.execute("PRAGMA query_only = ON")
    with pytest.raises(AppError, match="was not deleted"):
        chat.session.delete(chat.node("b"))
    assert [node.text for node in chat.session.messages] == ["a", "b"]


def test_a_fork_holds_the_branch_up_to_a_message(chat: ScriptedSession) -> None:
    first = chat.exchange("a", "b")
    chat.session.set_setting("answer.system", "Be brief.")
    chat.exchange("c", "d")
    copy = chat.session.fork(chat.node("b"))
    assert copy is not None
    assert chat.session.open_conversation(copy)
    chat.exchange("e", "f")
    assert (chat.texts(copy), chat.texts(first)) == (["a", "b", "e", "f"], ["a", "b", "c", "d"])
    assert (chat.library.title(copy), chat.session.settings["answer.system"]) == ("a (fork)", "Be brief.")
    assert chat.library.title(chat.session.fork(chat.node("b"))) == "a (fork 2)"


@pytest.mark.parametrize(("prompt", "texts"), [("a", []), ("c", ["a", "b"])])
def test_a_fork_at_a_prompt_has_it_as_unsent_text(chat: ScriptedSession, prompt: str, texts: list[str]) -> None:
    chat.exchange("a", "b")
    chat.exchange("c", "d")
    assert chat.session.open_conversation(chat.session.fork(chat.node(prompt)))
    assert [node.text for node in chat.session.messages] == texts
    assert chat.session.conversation.unsent_text == prompt
    chat.exchange("e", "f")
    assert [node.text for node in chat.session.messages] == [*texts, "e", "f"]
