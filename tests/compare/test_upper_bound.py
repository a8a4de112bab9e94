"""The upper bound of the speedup that drafts allow."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.compare.race import Run, Steps, in_process, race
from app.compare.upper_bound import upper_bound
from app.conversations.message import Message, Role
from app.engine.auto.cost_profile import CostProfile
from app.engine.auto.curve import CostModel
from app.engine.auto.pair_statistics import PairStatistics
from app.engine.types import SamplingParams
from app.worker.request import AnswerRequest
from tests.fakes import FakeModel, mixing
from tests.pairs import FakePair

BOTH = ("model", "ngram")


@pytest.fixture
def pair() -> FakePair:
    return FakePair(FakeModel(mixing(2)), FakeModel(mixing(2)))


@pytest.fixture
def plain(pair: FakePair) -> Run:
    """An answer; the pair's costs say that a batch costs as much as a token, and drafts nothing."""
    request = AnswerRequest((Message(Role.USER, "abc"),), SamplingParams(temperature=0), max_tokens=8)
    steps = Steps(race([in_process(pair, "plain", None)], request, 1, lambda: False, warm_up=False))
    list(steps)
    run = steps.result.rounds[0]["plain"]
    use_costs(pair, run)
    return run


def use_costs(pair: FakePair, run: Run, factor: float = 1.0, max_batch: int = 64) -> None:
    ns = run.ns_per_token
    assert ns is not None
    profile = CostProfile({1: factor * ns, 64: factor * ns}, draft_ns=0.0, max_batch=max_batch)
    pair.memory = PairStatistics(CostModel(profile))


def test_it_is_estimated_from_the_answer_and_the_costs(pair: FakePair, plain: Run) -> None:
    # Seven tokens in one step.
    assert upper_bound(pair, plain, lambda: False, BOTH) == pytest.approx(7.0)
    assert upper_bound(pair, plain, lambda: True, BOTH) is None
    # At most two drafted tokens in a step: two steps of three tokens, and one token.
    use_costs(pair, plain, max_batch=3)
    assert upper_bound(pair, plain, lambda: False, BOTH) == pytest.approx(7 / 3)


def test_only_the_given_sources_count(pair: FakePair, plain: Run) -> None:
    assert upper_bound(pair, plain, lambda: False, ["ngram"]) == pytest.approx(1.0)
    repeated = replace(plain, prompt=(*plain.prompt, *plain.tokens, *plain.prompt))
    found = upper_bound(pair, repeated, lambda: False, ["ngram"])
    assert found is not None
    assert found > 2.0
    assert upper_bound(pair, repeated, lambda: False, ["ngram"], 30) == pytest.approx(1.0), "no match is that long"
    pair.drafter = None
    assert upper_bound(pair, repeated, lambda: False, ["model"]) == pytest.approx(1.0)


def test_wrong_costs_give_no_estimate(pair: FakePair, plain: Run) -> None:
    use_costs(pair, plain, factor=9.0)
    assert upper_bound(pair, plain, lambda: False, BOTH) is None
