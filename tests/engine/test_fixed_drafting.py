"""What fixed drafting says of its gain is what its rounds took against decoding without drafts."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from app.cli.report import summary
from app.conversations.message import Message, Role
from app.engine.auto.cost_profile import CostProfile
from app.engine.auto.curve import CostModel
from app.engine.fixed import NEVER_MEASURED, FixedDrafting
from app.engine.interfaces import AnswerStart, Clock, Judge, StepResult
from app.engine.types import Draft, DraftParams, SamplingParams
from app.worker.events import Finished
from app.worker.request import AnswerRequest
from app.worker.responder import answer
from tests.fakes import FakeModel, mixing
from tests.pairs import FakePair
from tests.recordings import Trace
from tests.replay import RecordedDraft

FIXED = DraftParams(n_max=3, n_min=0, p_min=0.0)
DRAFTED = Draft((1, 2, 3), (0.9, 0.9, 0.9), 3)


class Ready(RecordedDraft):
    """A draft model that says the same in every round."""

    def __init__(self) -> None:
        super().__init__(Trace("none", "none", (), (), (), ()), 0.0, lambda cost: None)

    def draft(self, tokens: Sequence[int], limit: int, judge: Judge) -> Draft:
        return DRAFTED


def fixed(params: DraftParams = FIXED, clock: Clock = lambda: 0) -> FixedDrafting:
    """On a machine on which four rows take as long as 1.6 single ones."""
    return FixedDrafting(Ready(), params, CostModel(CostProfile({1: 1000.0, 4: 1600.0, 64: 20_000.0})), clock)


def observed(strategy: FixedDrafting, *rounds: StepResult) -> tuple[str, float]:
    """Verdict and speed-up, 0 for none."""
    for result in rounds:
        strategy.propose([1, 2, 3], 8)
        strategy.observe(result)
    assert strategy.status is not None
    return strategy.status.verdict, round(strategy.status.speedup or 0.0, 3)


def test_drafts_that_hold_win_by_what_was_measured() -> None:
    held = StepResult(0, DRAFTED, (1, 2, 3, 4), 3, total_ns=2000, draft_ns=400)

    assert observed(fixed(), *[held] * 8) == ("", 2.0)


def test_drafts_that_fail_lose_by_what_was_measured() -> None:
    failed = StepResult(0, DRAFTED, (9,), 0, total_ns=2000, draft_ns=400)

    assert observed(fixed(), *[failed] * 8) == ("", 0.5)


def test_the_drafts_reading_of_the_prompt_counts() -> None:
    now = iter((0, 16_000))
    strategy = fixed(clock=lambda: next(now))
    assert list(strategy.begin(AnswerStart([1, 2, 3], 60), lambda: False)) == [3]
    held = StepResult(0, DRAFTED, (1, 2, 3, 4), 3, total_ns=2000, draft_ns=400)

    assert observed(strategy, *[held] * 8) == ("", 1.0)


@pytest.mark.parametrize("slower", [0.5, 1.5, 3.0])
def test_a_machine_that_is_as_much_slower_at_everything_gains_the_same(slower: float) -> None:
    held = StepResult(0, DRAFTED, (1, 2, 3, 4), 3, total_ns=round(slower * 2000), draft_ns=round(slower * 400))
    assert observed(fixed(), *[held] * 8) == ("", 2.0)


def test_where_nothing_may_be_drafted_there_is_nothing_to_say() -> None:
    assert fixed(DraftParams(n_max=0)).status is None


def ended(riders: FakePair) -> Finished:
    clock = iter(range(0, 10**9, 1000))
    asked = AnswerRequest((Message(Role.USER, "hello"),), SamplingParams(temperature=0), FIXED, max_tokens=60)
    *_, last = answer(riders, 1, asked, clock=lambda: next(clock))
    assert isinstance(last, Finished)
    return last


def test_a_pair_that_was_measured_tells_what_fixed_drafts_gain_and_learns_nothing_of_them() -> None:
    riders = FakePair(FakeModel(mixing(5)), FakeModel(mixing(5)))
    list(riders.calibrate(lambda: False))
    assert riders.memory is not None
    before = riders.memory.costs.snapshot()
    finished = ended(riders)

    assert finished.drafting is not None
    assert finished.drafting.speedup is not None
    assert finished.drafting.reason == ""
    assert " (100% accepted, " in summary(finished, riders.info)
    assert riders.memory.costs.snapshot() == before


def test_a_pair_that_nobody_measured_says_that_the_gain_is_not_known() -> None:
    riders = FakePair(FakeModel(mixing(5)), FakeModel(mixing(5)))
    finished = ended(riders)

    assert riders.memory is None
    assert finished.drafting is not None
    assert (finished.drafting.speedup, finished.drafting.reason) == (None, NEVER_MEASURED)
    line = summary(finished, riders.info)
    assert " tok/s (100% accepted, " in line
    assert "; speedup unknown; measure this pair with tandem tune" in line


def test_the_draft_model_is_not_asked_for_what_would_be_dropped() -> None:
    drafter = Ready()
    asked: list[int] = []
    drafter.draft = lambda tokens, limit, judge: asked.append(limit) or DRAFTED  # type: ignore[method-assign, func-returns-value]
    strategy = FixedDrafting(drafter, DraftParams(8, 3, 0.0))

    assert [len(strategy.propose([1, 2, 3], room)) for room in (2, 3)] == [0, 3]
    assert asked == [3]
