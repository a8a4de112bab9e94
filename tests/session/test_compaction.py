"""A full context does not end a conversation: earlier messages are summarized or left out for the model."""

from pathlib import Path

import pytest

from app.conversations.export import to_json
from app.conversations.importing import read_file
from app.core.errors import AppError, ContextOverflowError
from app.engine.stats import GenerationStats
from app.engine.types import FinishReason
from app.session.state import Outcome, Phase
from app.worker.events import Failed, Finished
from tests.session.scripted import ScriptedSession

TURNS = [(f"question {n}", f"answer {n}") for n in range(4)]


def full(n_tokens: int = 5000, whose: str = "conversation") -> ContextOverflowError:
    return ContextOverflowError("Too long.", "", whose=whose, n_tokens=n_tokens)


def ended(chat: ScriptedSession, text: str, reason: FinishReason = FinishReason.STOP) -> Outcome | None:
    request = len(chat.engine.requests)
    return chat.session.handle(Finished(request, reason, text, "", GenerationStats(predicted_n=2))).ended


def makes_room(chat: ScriptedSession, error: AppError) -> bool:
    """Let the running answer fail; return whether it continues."""
    return chat.session.handle(Failed(len(chat.engine.requests), error)).ended is None


def overflowing(chat: ScriptedSession) -> None:
    """Send a prompt that overflows the context."""
    for question, answer in TURNS:
        chat.exchange(question, answer)
    chat.session.send("more")
    assert makes_room(chat, full())


def summarized(chat: ScriptedSession) -> None:
    """Answer a prompt after a summary has replaced the oldest messages."""
    overflowing(chat)
    ended(chat, "They talked.")
    chat.finishes("fine")


def test_the_oldest_messages_are_summarized_and_the_prompt_is_asked_again(chat: ScriptedSession) -> None:
    overflowing(chat)
    asked = chat.engine.requests[-1]
    assert [m.content for m in asked.messages[:-1]] == [text for turn in TURNS[:3] for text in turn]
    assert asked.max_tokens is not None
    assert chat.session.is_compacting
    assert ended(chat, "They talked.") is None
    assert chat.read == ["Summary of the earlier conversation:\nThey talked.", "question 3", "answer 3", "more"]
    assert chat.session.phase is Phase.ANSWERING
    assert not chat.session.is_compacting
    chat.answers("fine")
    assert chat.texts() == [text for turn in TURNS for text in turn] + ["more", "fine"]


@pytest.mark.parametrize(
    ("mode", "error"),
    [("drop", None), ("compact", full()), ("compact", AppError("It broke."))],
    ids=["as the setting says", "the summary does not fit", "the summary fails"],
)
def test_messages_are_left_out_without_a_summary(chat: ScriptedSession, mode: str, error: AppError | None) -> None:
    chat.live.set("answer.context_full", mode)
    overflowing(chat)
    assert error is None or makes_room(chat, error)
    assert chat.read == ["question 3", "answer 3", "more"]
    assert chat.session.conversation.summary is None


@pytest.mark.parametrize(
    ("mode", "turns", "error", "has_room"),
    [
        pytest.param("stop", TURNS[:1], full(), False, id="the setting"),
        pytest.param("compact", [], full(), False, id="a first prompt"),
        pytest.param("compact", TURNS[:1], AppError("It broke."), True, id="another error"),
        pytest.param("compact", TURNS[:1], full(whose="prompt"), True, id="a long prompt"),
        pytest.param("compact", TURNS[:1], full(whose="system"), True, id="a long system prompt"),
    ],
)
def test_what_leaving_out_messages_does_not_solve_stays_an_error(
    chat: ScriptedSession, mode: str, turns: list[tuple[str, str]], error: AppError, has_room: bool
) -> None:
    chat.live.set("answer.context_full", mode)
    for question, answer in turns:
        chat.exchange(question, answer)
    chat.session.send("c")
    assert bool(chat.engine.requests[-1].n_room) is has_room
    assert not makes_room(chat, error)


def test_the_next_prompts_keep_the_summary_until_the_context_is_full_again(chat: ScriptedSession) -> None:
    summarized(chat)
    chat.session.send("again")
    assert chat.read[0].endswith("They talked.")
    assert chat.read[-1] == "again"
    assert makes_room(chat, full(n_tokens=4000))
    assert chat.read[0].endswith("They talked.")
    ended(chat, "They still talked.")
    assert chat.read == ["Summary of the earlier conversation:\nThey still talked.", "more", "fine", "again"]


def test_an_answer_that_fills_the_context_goes_on(chat: ScriptedSession) -> None:
    chat.exchange("a", "b")
    chat.session.send("c")
    chat.says("half")
    assert ended(chat, "half", FinishReason.CONTEXT) is None
    request = chat.engine.requests[-1]
    assert request.prefill is not None
    assert request.prefill.text == "half"
    assert makes_room(chat, full(whose="answer"))
    ended(chat, "They talked.")
    assert chat.engine.requests[-1].prefill == request.prefill
    chat.says(" of it")
    chat.finishes("half of it")
    assert chat.texts() == ["a", "b", "c", "half of it"]


def test_stopping_the_summary_stops_the_answer(chat: ScriptedSession) -> None:
    overflowing(chat)
    assert ended(chat, "They", FinishReason.CANCELLED) is not None
    assert chat.session.phase is Phase.READY
    assert chat.session.conversation.summary is None


def test_the_summary_can_be_changed_and_outlives_the_process(chat: ScriptedSession) -> None:
    summarized(chat)
    chat.session.set_summary("They talked about birds.")
    assert chat.session.conversation.summary == "They talked about birds."
    number = chat.conversation.number
    assert number is not None
    other = ScriptedSession(chat.file)
    assert other.session.open_conversation(number)
    other.session.send("again")
    assert other.read[0].endswith("They talked about birds.")
    other.session.close()


def test_an_exported_conversation_keeps_its_summary(chat: ScriptedSession, tmp_path: Path) -> None:
    summarized(chat)
    number = chat.conversation.number
    assert number is not None
    file = tmp_path / "conversations.json"
    file.write_text(to_json([chat.store.load(number)]))
    (copy,) = chat.store.insert(read_file(file))
    assert chat.session.open_conversation(copy)
    chat.session.send("again")
    assert chat.read[0].endswith("They talked.")


def test_a_branch_from_before_has_no_summary(chat: ScriptedSession) -> None:
    summarized(chat)
    chat.session.edit(chat.node("question 1"), "other")
    assert chat.read == ["question 0", "answer 0", "other"]
