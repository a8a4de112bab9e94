"""Check a draft model that fails during an answer: the answer goes on, and all time is counted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.conversations.message import Message, Role
from app.core.errors import DecodeError
from app.engine.types import AutoDraft, Drafting, DraftParams, SamplingParams, failed, turned_off
from app.worker.events import Finished, Notice, Step
from app.worker.request import AnswerRequest
from app.worker.responder import answer
from tests.fakes import FakeModel, Rule, mixing, script
from tests.pairs import FakePair

PROMPT = "hello"
FIXED = DraftParams(n_max=3, n_min=0, p_min=0.0)
FAILS_AT = 60
SAID_AGAIN = [9, 10, 11, 12, 13, 14, 15, 16]


class Failing(FakeModel):
    """A draft model that fails once and for all.

    Attributes:
        fails_from: Number of the decode call from which it fails.
        fails_for_ns: What each failure takes.
    """

    fails_from = FAILS_AT
    fails_for_ns = 0

    def decode(self, tokens: list[int], n_outputs: int) -> None:  # type: ignore[override]
        if len(self.batches) + 1 >= self.fails_from:
            Ticking.now += self.fails_for_ns
            raise DecodeError("The fake failed.")
        super().decode(tokens, n_outputs)


class Ticking:
    """Every look at the clock takes a microsecond."""

    now = 0

    def __call__(self) -> int:
        Ticking.now += 1000
        return Ticking.now


def answered(drafting: Drafting, rule: Rule, draft: Failing, n_tokens: int) -> tuple[list[Step], Finished]:
    pair = FakePair(FakeModel(rule), draft)
    list(pair.calibrate(lambda: False))
    request = AnswerRequest((Message(Role.USER, PROMPT),), SamplingParams(temperature=0), drafting, n_tokens)
    seen = list(answer(pair, 1, request, clock=Ticking()))
    assert [e.text for e in seen if isinstance(e, Notice)] == [
        "The draft model failed, the answer goes on without it: The fake failed."
    ]
    last = seen[-1]
    assert isinstance(last, Finished)
    assert last.lost == "The fake failed."
    plain = list(answer(FakePair(FakeModel(rule)), 1, replace(request, drafting=None)))[-1]
    assert isinstance(plain, Finished)
    assert last.text == plain.text
    return [e for e in seen if isinstance(e, Step)], last


@pytest.mark.parametrize("fails_from", [1, FAILS_AT])
def test_the_look_up_continues_without_the_draft_model(fails_from: int) -> None:
    rule = script(SAID_AGAIN * 20, len(PROMPT))
    draft = Failing(mixing(2))
    draft.fails_from = fails_from

    steps, last = answered(AutoDraft(), rule, draft, 120)

    assert last.stats.draft_n - last.stats.draft_n_model > 60
    assert last.stats.predicted_n / last.stats.verify_steps > 4
    assert last.plan.drafter == "model+ngram"
    assert turned_off("model", failed("model")) in {s.drafting.reason for s in steps if s.drafting}


@pytest.mark.parametrize("drafting", [FIXED, AutoDraft(lookup=False)])
def test_what_was_plain_behind_the_failure_belongs_to_the_answer(drafting: Drafting) -> None:
    steps, last = answered(drafting, mixing(1), Failing(mixing(1)), 400)

    told = [step.drafting for step in steps if step.drafting is not None]
    before = [status.speedup for status in told if status.source == "model" and status.speedup is not None][-1]
    assert last.drafting is not None
    assert last.drafting.speedup is not None
    assert (last.drafting.source, last.drafting.reason) == ("off", failed("model"))
    assert abs(before - 1) > 0.05
    assert abs(last.drafting.speedup - 1) < 0.7 * abs(before - 1)
