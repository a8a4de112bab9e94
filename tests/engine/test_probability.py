"""The draft model's confidence: a softmax over the whole vocabulary."""

from __future__ import annotations

import numpy as np
import pytest

from app.core.errors import DecodeError
from app.engine.probability import most_probable


def test_the_confidence_is_the_softmax_over_the_whole_vocabulary() -> None:
    logits = np.log(np.array([0.1, 0.6, 0.2, 0.1], dtype=np.float32))

    token, probability = most_probable(logits)

    assert token == 1
    assert probability == pytest.approx(0.6, abs=1e-6)


def test_a_long_tail_counts() -> None:
    # Over the ten best it would be 0.5; the other 99,990 tokens have most of the probability.
    logits = np.zeros(100_000, dtype=np.float32)
    logits[3] = np.log(9.0)

    assert most_probable(logits)[1] == pytest.approx(9 / 100_008, rel=1e-4)


def test_leaving_out_logits_far_below_the_largest_changes_little() -> None:
    logits = np.random.default_rng(1).normal(0, 3, 150_000).astype(np.float32)
    logits[7] = 22.0
    exact = np.exp(logits.astype(np.float64) - 22).sum()

    assert most_probable(logits)[1] == pytest.approx(1 / exact, rel=2e-3)


def test_a_tie_takes_the_lowest_id_and_its_share() -> None:
    two = np.array([5.0, 5.0], dtype=np.float32)

    token, probability = most_probable(two)

    assert token == 0
    assert probability == pytest.approx(0.5)


@pytest.mark.parametrize("logits", [[np.nan, 1.0], [1.0, np.nan], [np.inf, 1.0], [-np.inf, -np.inf]])
def test_invalid_logits_are_an_error(logits: list[float]) -> None:
    with pytest.raises(DecodeError, match="not numbers"):
        most_probable(np.array(logits, dtype=np.float32))


def test_the_logits_are_not_changed() -> None:
    logits = np.array([1.0, 3.0, 2.0], dtype=np.float32)
    most_probable(logits)

    assert logits.tolist() == [1.0, 3.0, 2.0]
