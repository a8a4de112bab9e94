"""Commands and events in, a state out."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from app.conversations.message import Prefill
from app.engine.types import AutoDraft, DraftParams
from app.session.state import Change, Changes, DraftState, Phase
from app.worker.events import Failed, JobEnded, Loaded, PairChanged
from app.worker.jobs import PromptSize, Query, TitleJob, prompt_size
from tests.fake_engine import FIXED, no_loader
from tests.session.scripted import BROKEN, PAIR, ScriptedSession


def test_a_prompt_that_waits_replaces_an_unanswered_one(chat: ScriptedSession) -> None:
    chat.session.send("a")
    chat.fails()
    chat.session.load(no_loader, "A pair")
    for text in ("a", "b"):
        chat.session.send(text)
        assert [node.text for node in chat.session.messages] == [text, ""]
        chat.session.take_back()
    assert [node.text for node in chat.session.messages] == ["a"]


def test_a_pair_that_waits_for_an_answer_is_not_loaded_before_it_reports_so(chat: ScriptedSession) -> None:
    assert not chat.session.will_load
    chat.session.send("a")
    chat.session.load(no_loader, "Another pair")
    assert (chat.session.phase, chat.session.will_load) == (Phase.ANSWERING, True)
    chat.finishes("1")
    assert (chat.session.phase, chat.session.will_load) == (Phase.LOADING, True)
    chat.session.handle(Loaded(PAIR))
    assert (chat.session.phase, chat.session.will_load) == (Phase.READY, False)


DRAFT = replace(PAIR, draft=PAIR.target)


@pytest.mark.parametrize(
    ("state", "shown"),
    [
        (DraftState.of(None, DRAFT, switched_on=True), (False, False, "no draft", 0)),
        (DraftState.of(AutoDraft(), None, switched_on=True), (True, True, "automatic", 0)),
        (DraftState.of(AutoDraft(), DRAFT, switched_on=False), (False, True, "off", 0)),
        (DraftState.of(DraftParams(4), DRAFT, switched_on=True), (True, True, "fixed", 4)),
        (DraftState.of(DraftParams(4), PAIR, switched_on=True), (False, False, "no draft", 0)),
    ],
)
def test_the_draft_state_follows_setting_pair_and_switch(state: DraftState, shown: tuple[bool, bool, str, int]) -> None:
    assert (state.is_on, state.is_available, state.mode, state.n_max) == shown
    assert bool(state.reason) == (not state.is_available)


def test_the_typed_prompt_or_the_last_one_is_compared(chat: ScriptedSession) -> None:
    chat.session.handle(PairChanged(DRAFT))
    number = chat.exchange("a", "b")
    for typed, messages in (("", ["a"]), ("c", ["a", "b", "c"])):
        request = chat.session.comparable(typed)
        assert [message.content for message in request.messages] == messages
        assert (request.max_tokens, request.sampling.seed is None) == (256, False)
        assert request.conversation == str(number)


@pytest.fixture
def titled(tmp_path: Path) -> Iterator[ScriptedSession]:
    chat = ScriptedSession(tmp_path / "conversations.db", flags={**FIXED, "answer.titles": True})
    yield chat
    chat.session.close()


def title_of(chat: ScriptedSession) -> str:
    assert chat.conversation.number is not None
    return chat.store.load(chat.conversation.number).summary.title


def test_the_model_names_a_conversation_after_its_first_answer(titled: ScriptedSession) -> None:
    titled.exchange("What is the tallest mountain of Africa?", "Kilimanjaro.")
    (job,) = titled.engine.jobs
    assert isinstance(job, TitleJob)
    assert [m.content for m in job.request.messages[:-1]] == ["What is the tallest mountain of Africa?", "Kilimanjaro."]
    assert job.request.prefill == Prefill('Title: "'), "the answer has no preamble"
    assert job.request.stops == ('"', "\n")
    titled.session.handle(JobEnded(1001, "Tallest mountain of Africa"))
    assert title_of(titled) == "Tallest mountain of Africa"
    titled.exchange("And of Asia?", "Everest.")
    assert len(titled.engine.jobs) == 1


def test_a_title_of_the_user_stays(titled: ScriptedSession) -> None:
    titled.exchange("a", "b")
    assert titled.conversation.number is not None
    titled.library.rename(titled.conversation.number, "Mine")
    titled.session.handle(JobEnded(1001, "Theirs"))
    assert title_of(titled) == "Mine"


def test_the_next_prompt_does_not_wait_for_the_title(titled: ScriptedSession) -> None:
    titled.exchange("What is it?", "b")
    titled.session.send("c")
    assert isinstance(titled.engine.jobs[0], TitleJob)
    assert titled.engine.jobs[0].gives_way
    titled.session.handle(JobEnded(1001, "Late"))
    assert title_of(titled) == "What is it?"


def test_without_the_setting_no_title_is_asked_for(chat: ScriptedSession) -> None:
    chat.exchange("a", "b")
    assert not chat.engine.jobs


def test_a_typed_prompt_is_counted_with_its_conversation(chat: ScriptedSession) -> None:
    chat.exchange("a", "b")
    chat.session.count("c")
    (job,) = chat.engine.jobs
    assert isinstance(job, Query)
    assert isinstance(job.function, partial)
    assert job.function.func is prompt_size
    assert [message.content for message in job.function.args[0].messages] == ["a", "b", "c"]
    assert not job.loads
    assert Change.COUNTED in chat.session.handle(JobEnded(1001, PromptSize(321))).what
    assert chat.session.answering.typed == PromptSize(321)
    assert chat.session.forget_count()
    assert not chat.session.forget_count()
    assert chat.session.handle(JobEnded(1001, PromptSize(321))) == Changes()


def test_a_count_that_fails_ends_no_answer(chat: ScriptedSession) -> None:
    chat.session.count("a")
    assert chat.session.handle(Failed(1001, BROKEN)).ended is None
    assert chat.session.phase is Phase.READY


def test_nothing_is_counted_during_an_answer(chat: ScriptedSession) -> None:
    chat.session.send("a")
    chat.session.count("b")
    assert not chat.engine.jobs


def test_invalid_settings_of_an_opened_conversation_are_reported(chat: ScriptedSession) -> None:
    chat.session.open_conversation(chat.store.create({"sampling": {"temp": "hot", "top_k": 3}}))
    (told,) = chat.said
    assert told.startswith('This conversation\'s settings: sampling.temp is "hot"; it must be a number')
    assert chat.session.settings["sampling.top_k"] == 3
