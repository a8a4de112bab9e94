"""Drafts change nothing: neither greedy tokens, nor the distribution of sampled tokens."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from app.compare.race import Side
from app.engine.types import SamplingParams
from tests.compare.runs import finish
from tests.compare.test_difference import DRAFTS, REQUEST, never
from tests.fakes import FakeModel, FakeSampler
from tests.pairs import FakePair
from tests.sampled_distribution import EVERYTHING, SampledCheck, check_sampled, chi_square_p, homogeneity

FIXED = [Side("fixed", DRAFTS)]
ALL = [Side("everything", EVERYTHING)]


def four(sequence: Sequence[int]) -> dict[int, float]:
    return {2 + len(sequence): 0.4, 1: 0.3, 30: 0.2, 31: 0.1}


@pytest.fixture
def pair() -> FakePair:
    return FakePair(FakeModel(four), FakeModel(four))


def sampled(pair: FakePair) -> SampledCheck:
    request = replace(REQUEST, sampling=SamplingParams(temperature=1.0))
    return finish(check_sampled(pair, request, "all", EVERYTHING, 150, never))


def test_sampled_answers_have_one_distribution(pair: FakePair) -> None:
    found = sampled(pair)

    assert found.drafted > 100
    assert found.degrees_of_freedom > 5
    assert found.holds
    assert len({sampler.seed for sampler in pair.samplers}) == 300, "each answer has its own seed"


class Greedily(FakeSampler):
    """A fault: with a draft it takes the most probable token instead of drawing."""

    def sample(self, row: int) -> int:
        model = self._model
        if len(model._rows) < 2:
            return super().sample(row)
        return int(model.logits(row).argmax())


def test_a_bias_is_found(pair: FakePair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair, "new_sampler", lambda params, guidance: Greedily(pair._model, params.seed))
    found = sampled(pair)

    assert not found.holds


@pytest.mark.parametrize(
    ("statistic", "freedom", "p"),
    # The 5 and 1 percent points of the usual tables.
    [(3.841, 1, 0.05), (5.991, 2, 0.05), (18.307, 10, 0.05), (21.666, 9, 0.01), (135.807, 100, 0.01)],
)
def test_chi_square_is_that_of_the_tables(statistic: float, freedom: int, p: float) -> None:
    assert chi_square_p(statistic, freedom) == pytest.approx(p, rel=2e-3)


def test_rare_answers_are_merged() -> None:
    same = Counter({"a": 50, "b": 40, **{f"r{i}": 1 for i in range(10)}})
    assert homogeneity(same, same.copy()) == (0.0, 2)
    statistic, freedom = homogeneity(Counter({"a": 60, "b": 40}), Counter({"a": 40, "b": 60}))
    assert (round(statistic, 6), freedom) == (8.0, 1)
    assert homogeneity(Counter({"a": 9}), Counter({"a": 9})) == (0.0, 0)
