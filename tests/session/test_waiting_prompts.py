"""Queued prompts, and answers that end while another conversation is open."""

from dataclasses import replace
from pathlib import Path

from app.conversations.tree import State
from app.engine.types import AutoDraft, FinishReason
from app.session.active_conversations import Mark
from app.session.state import Phase
from app.worker.events import JobEnded, Loaded, PairChanged
from app.worker.jobs import MeasureJob
from tests.conversations.stores import kill
from tests.fake_engine import MEASURING
from tests.session.scripted import PAIR, ScriptedSession


def asked(chat: ScriptedSession) -> list[str]:
    """Return the prompt of each request so far."""
    return [request.messages[-1].content for request in chat.engine.requests]


def draft(chat: ScriptedSession, conversation: int) -> str:
    """Return the stored text of an input line."""
    other = chat.other
    text = other.load(conversation).unsent_text
    other.close()
    return text


def number_of(chat: ScriptedSession) -> int:
    assert chat.conversation.number is not None
    return chat.conversation.number


# In one conversation


def test_prompts_that_wait_and_typed_text_survive_a_crash(chat: ScriptedSession) -> None:
    number = chat.exchange("a", "1")
    for text in "bcd":
        chat.session.send(text)
    chat.conversation.set_unsent_text("typed")
    kill(chat.store)
    assert draft(chat, number) == "c\n\nd\n\ntyped"


def test_a_prompt_that_was_asked_is_no_unsent_text(chat: ScriptedSession) -> None:
    number = chat.exchange("a", "1")
    chat.session.send("b")
    chat.session.send("c")
    chat.conversation.set_unsent_text("typed")
    chat.finishes("2")
    assert (asked(chat)[-1], draft(chat, number)) == ("c", "typed")


def test_a_prompt_that_the_disk_refuses_waits_on(chat: ScriptedSession) -> None:
    chat.exchange("a", "1")
    chat.session.send("b")
    chat.session.send("c")
    connection = chat.store.database.connection
    connection.execute("PRAGMA query_only = ON")
    chat.finishes("2")
    assert chat.session.queued == ("c",)
    assert chat.session.take_back() == "c"


# In several conversations


def test_an_answer_goes_on_in_a_conversation_that_was_left(chat: ScriptedSession) -> None:
    first = chat.exchange("a", "1")
    chat.session.send("b")
    chat.says("ha")
    chat.session.new_conversation()
    chat.says("lf")
    session = chat.session
    assert (session.messages, session.conversation.running, session.answered_elsewhere) == ((), None, first)
    assert (chat.engine.cancelled, session.marks) == (0, {first: Mark.ANSWERING})
    outcome = chat.finishes("half")
    assert (outcome.conversation, outcome.is_open) == (first, False)
    assert chat.path(first)[-1] == ("half", "", State.COMPLETE)
    assert chat.session.marks == {first: Mark.ANSWERED}
    chat.session.open_conversation(first)
    assert (chat.session.messages[-1].text, chat.session.marks) == ("half", {})


def test_a_prompt_of_another_conversation_waits_its_turn(chat: ScriptedSession) -> None:
    chat.session.send("a")
    first = number_of(chat)
    chat.session.new_conversation()
    chat.session.send("b")
    chat.session.send("c")
    chat.session.open_conversation(first)
    second = next(summary.id for summary in chat.library.summaries() if summary.id != first)
    assert (chat.library.title(second), chat.session.marks) == ("b", {second: Mark.WAITING})
    chat.finishes("1")
    assert (asked(chat), chat.session.answered_elsewhere) == (["a", "b"], second)
    assert [message.content for message in chat.engine.requests[-1].messages] == ["b"]
    chat.finishes("2")
    chat.finishes("3")
    assert chat.texts(second) == ["b", "2", "c", "3"]


def test_an_answer_that_fails_elsewhere_leaves_its_prompts_as_unsent_text(chat: ScriptedSession) -> None:
    chat.session.send("a")
    chat.session.send("b")
    first = number_of(chat)
    chat.session.new_conversation("typed")
    chat.fails()
    assert draft(chat, first) == "b\n\ntyped"
    chat.session.open_conversation(first)
    assert chat.conversation.unsent_text == "b\n\ntyped"


def test_a_deleted_conversation_is_stopped_and_its_prompts_are_not_sent(chat: ScriptedSession) -> None:
    chat.session.send("a")
    chat.session.send("b")
    first = number_of(chat)
    chat.session.new_conversation()
    chat.library.delete(first)
    chat.session.drop_deleted()
    assert chat.engine.cancelled == 1
    chat.finishes("1", FinishReason.CANCELLED)
    assert (asked(chat), chat.session.phase) == (["a"], Phase.READY)


def test_an_answer_goes_on_in_a_conversation_that_another_tandem_deletes(chat: ScriptedSession) -> None:
    chat.session.send("a")
    chat.session.send("b")
    first = number_of(chat)
    chat.session.new_conversation()
    chat.other.delete(first)
    chat.session.drop_deleted()
    assert chat.engine.cancelled == 0
    chat.finishes("1")
    assert asked(chat) == ["a", "b"]


def test_an_answer_elsewhere_keeps_the_settings_of_its_conversation(chat: ScriptedSession) -> None:
    chat.exchange("a", "1")
    first = number_of(chat)
    chat.session.set_setting("answer.system", "Be brief.")
    chat.session.send("b")
    chat.session.send("c")
    chat.session.new_conversation()
    chat.finishes("2")
    assert chat.read == ["Be brief.", "a", "1", "b", "2", "c"]
    assert (chat.session.settings["answer.system"], chat.session.answered_elsewhere) == (None, first)


def test_drafting_follows_the_open_conversation_when_an_answer_elsewhere_has_ended(chat: ScriptedSession) -> None:
    chat.session.handle(PairChanged(replace(PAIR, draft=PAIR.target)))
    chat.session.set_setting("draft.mode", "off")
    chat.session.send("a")
    chat.session.new_conversation()
    assert not chat.engine.drafts
    chat.finishes("1")
    assert chat.engine.drafts


def test_a_pair_that_is_loaded_again_with_its_draft_drafts_again(chat: ScriptedSession) -> None:
    chat.session.set_setting("draft.mode", "fixed")
    chat.session.handle(PairChanged(replace(PAIR, draft=None)))
    chat.session.settings_changed()
    assert not chat.session.drafting.is_on
    chat.session.send("a")
    chat.session.handle(PairChanged(replace(PAIR, draft=PAIR.target)))
    assert chat.engine.drafts


# Titles and measurements, which end when a prompt comes


def test_a_title_that_the_model_wrote_survives_another_first_prompt(tmp_path: Path) -> None:
    chat = ScriptedSession(tmp_path / "conversations.db", flags={"draft.mode": "fixed", "answer.titles": True})
    number = chat.exchange("Reverse a list", "Like this.")
    chat.session.handle(JobEnded(1001, "Python list reversal"))
    chat.session.edit(chat.node("Reverse a list"), "Reverse a linked list")
    chat.answers("So.")
    assert (chat.library.title(number), len(chat.engine.jobs)) == ("Python list reversal", 1)
    chat.session.close()


def test_a_title_made_from_the_prompt_follows_its_branch(chat: ScriptedSession) -> None:
    number = chat.exchange("Reverse a list", "Like this.")
    chat.session.edit(chat.node("Reverse a list"), "Sort a list")
    assert chat.library.title(number) == "Sort a list"


def test_the_pair_is_measured_while_nothing_is_asked(tmp_path: Path) -> None:
    chat = ScriptedSession(tmp_path / "conversations.db", flags={"draft.mode": "auto"}, loaded=False)
    chat.session.handle(Loaded(replace(PAIR, draft=PAIR.target)))
    assert chat.engine.measurements == [MeasureJob(AutoDraft())]
    assert chat.session.expects_events
    # Another program's request interrupts it.
    chat.session.handle(JobEnded(MEASURING, result=False))
    assert len(chat.engine.measurements) == 2
    chat.session.handle(JobEnded(MEASURING, result=True))
    assert not chat.session.expects_events
    chat.session.send("a")
    chat.finishes("1")
    assert len(chat.engine.measurements) == 3
    chat.session.close()


def test_without_automatic_drafting_nothing_is_measured(chat: ScriptedSession) -> None:
    chat.exchange("a", "1")
    assert not chat.engine.measurements
