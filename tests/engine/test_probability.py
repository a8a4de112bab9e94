"""The draft model's confidence: a softmax over the whole vocabulary."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from app.core.errors import DecodeError
from app.engine.probability import most_probable

TAIL = np.zeros(100_000)
"""Over the ten best, token 3 would have 0.5; the other tokens have most of the probability."""
TAIL[3] = np.log(9.0)


@pytest.mark.parametrize(
    ("logits", "token", "probability"),
    [
        pytest.param(np.log([0.1, 0.6, 0.2, 0.1]), 1, 0.6, id="softmax"),
        pytest.param(TAIL, 3, 9 / 100_008, id="a long tail counts"),
        pytest.param([5.0, 5.0], 0, 0.5, id="a tie takes the lowest id"),
    ],
)
def test_the_confidence_is_the_softmax_over_the_whole_vocabulary(
    logits: Sequence[float], token: int, probability: float
) -> None:
    row = np.array(logits, dtype=np.float32)
    before = row.copy()
    chosen, confidence = most_probable(row)
    assert chosen == token
    assert confidence == pytest.approx(probability, rel=1e-4)
    assert np.array_equal(row, before)


def test_leaving_out_logits_far_below_the_largest_changes_little() -> None:
    logits = np.random.default_rng(1).normal(0, 3, 150_000).astype(np.float32)
    logits[7] = 22.0
    exact = np.exp(logits.astype(np.float64) - 22).sum()

    assert most_probable(logits)[1] == pytest.approx(1 / exact, rel=2e-3)


@pytest.mark.parametrize("logits", [[np.nan, 1.0], [1.0, np.nan], [np.inf, 1.0], [-np.inf, -np.inf]])
def test_invalid_logits_are_an_error(logits: list[float]) -> None:
    with pytest.raises(DecodeError, match="not numbers"):
        most_probable(np.array(logits, dtype=np.float32))
