"""Drafts change nothing: neither greedy tokens, nor the distribution of sampled tokens."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from app.engine.types import SamplingParams
from tests.compare.test_difference import REQUEST
from tests.fakes import FakeModel, FakeSampler
from tests.pairs import FakePair
from tests.sampled_distribution import check_sampled, critical_value, homogeneity

SAMPLED = replace(REQUEST, sampling=SamplingParams(temperature=1.0))


def four(sequence: Sequence[int]) -> dict[int, float]:
    return {2 + len(sequence): 0.4, 1: 0.3, 30: 0.2, 31: 0.1}


@pytest.fixture
def pair() -> FakePair:
    return FakePair(FakeModel(four), FakeModel(four))


def test_sampled_answers_have_one_distribution(pair: FakePair) -> None:
    found = check_sampled(pair, SAMPLED, 150)

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
    monkeypatch.setattr(pair, "new_sampler", lambda params, *_: Greedily(pair._model, params.seed))

    assert not check_sampled(pair, SAMPLED, 150).holds


@pytest.mark.parametrize(
    ("freedom", "level", "value"),
    # The points of the usual tables.
    [(1, 0.05, 3.841), (10, 0.05, 18.307), (9, 0.01, 21.666), (100, 0.01, 135.807), (3, 0.001, 16.266)],
)
def test_critical_values_are_those_of_the_tables(freedom: int, level: float, value: float) -> None:
    assert critical_value(freedom, level) == pytest.approx(value, rel=0.03)


def test_rare_answers_are_merged() -> None:
    same = Counter({"a": 50, "b": 40, **{f"r{i}": 1 for i in range(10)}})
    assert homogeneity(same, same.copy()) == (0.0, 2)
    assert homogeneity(Counter({"a": 60, "b": 40}), Counter({"a": 40, "b": 60})) == (8.0, 1)
    assert homogeneity(Counter({"a": 9}), Counter({"a": 9})) == (0.0, 0)
