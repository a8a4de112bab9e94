"""An answer that repeats itself ends by itself and claims no speedup."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.conversations.message import Message, Role
from app.engine.repetition import LEAST_SHORT_TOKENS
from app.engine.types import AutoDraft, Drafting, FinishReason
from app.worker.events import Event, Finished, Step
from app.worker.request import AnswerRequest
from app.worker.responder import answer
from tests.fakes import FakeModel, always
from tests.pairs import FakePair

REQUEST = AnswerRequest((Message(Role.USER, "a"),), max_tokens=400, stop_on_repeat=True)


def loop() -> FakePair:
    """Return a pair that repeats "eee"."""
    return FakePair(FakeModel(always(5)), FakeModel(always(5)))


def events(pair: FakePair, request: AnswerRequest) -> list[Event]:
    return list(answer(pair, 1, request))


def finished(request: AnswerRequest) -> Finished:
    *_, last = events(loop(), request)
    assert isinstance(last, Finished)
    return last


@pytest.mark.parametrize("drafting", [None, AutoDraft()])
def test_a_loop_ends_at_the_same_token_with_and_without_drafts(drafting: Drafting) -> None:
    last = finished(replace(REQUEST, drafting=drafting))
    assert (last.reason, last.repeats) == (FinishReason.REPETITION, LEAST_SHORT_TOKENS)
    assert last.text == "e" * LEAST_SHORT_TOKENS


def test_a_loop_claims_no_speedup() -> None:
    pair = loop()
    told = events(pair, replace(REQUEST, drafting=AutoDraft()))
    running = [event.drafting for event in told if isinstance(event, Step)]
    last = told[-1]
    assert isinstance(last, Finished)
    assert last.drafting is not None
    assert any(status is not None and status.speedup for status in running)
    assert (last.drafting.speedup, last.drafting.verdict) == (None, "")


def test_a_loop_teaches_the_pair_no_gain_and_keeps_its_costs() -> None:
    pair = loop()
    events(pair, replace(REQUEST, drafting=AutoDraft()))
    assert pair.memory is not None
    assert pair.memory.gain is None
    # After measuring, and after the answer.
    assert pair.remembered == 2
    events(pair, replace(REQUEST, drafting=AutoDraft(), stop_on_repeat=False))
    assert pair.memory.gain is not None
