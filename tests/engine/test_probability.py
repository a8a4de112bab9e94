"""Probabilities of tokens, and the result of an inspected step."""

from collections.abc import Callable, Sequence
from itertools import count

import numpy as np
import pytest

from app.core.errors import DecodeError
from app.engine import generator as module
from app.engine.cache import TokenCache
from app.engine.draft_model import ModelDrafter
from app.engine.events import Step
from app.engine.fixed import FixedDrafting
from app.engine.generator import Generator, Request
from app.engine.interfaces import Controls, Logits
from app.engine.probability import most_probable, probability_of
from app.engine.sources import Source
from app.engine.types import DraftParams, FinishReason
from tests.fakes import END, FakeModel, FakeSampler, Rule

PROMPT = (5, 6, 7)


def counting(sequence: Sequence[int]) -> dict[int, float]:
    """Count up, with a probability of 0.75."""
    return {sequence[-1] + 1: 0.75, 40: 0.25}


def mistaken(sequence: Sequence[int]) -> dict[int, float]:
    """Count up, but propose 40 after every third token."""
    return {40 if len(sequence) % 3 == 0 else sequence[-1] + 1: 0.5, 41: 0.25, 42: 0.25}


def run(
    inspected: Callable[[], bool], target: Rule = counting, draft: Rule = mistaken, stop_at: int | None = None
) -> list[Step]:
    model, small = FakeModel(target), FakeModel(draft)
    drafter = ModelDrafter(TokenCache(small), small.n_vocab, lambda token: token == END)
    strategy = FixedDrafting(drafter, DraftParams(4, 0, 0.0))
    generator = Generator(TokenCache(model), strategy, FakeSampler(model), count(0, 1000).__next__)

    def observe(token: int, _: Source | None) -> FinishReason | None:
        return FinishReason.STOP if token == stop_at else None

    request = Request(PROMPT, lambda token: token == END, 20, observe, Controls(inspected=inspected))
    return [event for event in generator.run(request) if isinstance(event, Step)]


def test_probabilities_are_computed_only_if_requested(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def counted(row: Logits, token: int) -> float:
        calls.append(token)
        return 0.5

    monkeypatch.setattr(module, "probability_of", counted)
    assert all(step.inspection is None for step in run(lambda: False))
    assert calls == []
    run(lambda: True)
    assert calls


def test_inspection_changes_neither_the_answer_nor_its_times() -> None:
    without, inspected = run(lambda: False), run(lambda: True)
    assert [step.tokens for step in inspected] == [step.tokens for step in without]
    # Each pause reads the clock four times; only the time between the first and the third reading is subtracted.
    spent = inspected[-1].stats.predicted_ns - without[-1].stats.predicted_ns
    assert spent == 2000 * (len(inspected) - 1)


def test_a_step_has_the_probabilities_of_both_models() -> None:
    first, *steps = run(lambda: True)
    assert first.inspection is None
    for step in steps:
        seen = step.inspection
        assert seen is not None
        assert len(seen.chosen) == len(step.tokens)
        assert seen.chosen == pytest.approx([0.75] * len(step.tokens), rel=1e-4)
        assert step.draft.probabilities == pytest.approx([0.5] * len(step.draft), rel=1e-4)
        assert step.total_ns > 0
        mismatch = step.n_accepted < len(step.draft) and step.n_accepted < len(step.tokens)
        assert (seen.declined is not None) == mismatch
        if mismatch:
            assert seen.declined == pytest.approx(0.25, rel=1e-4)
    assert any(step.inspection is not None and step.inspection.declined is not None for step in steps)


def test_an_answer_that_ends_within_its_draft_rejects_nothing() -> None:
    *_, last = run(lambda: True, draft=counting, stop_at=10)
    assert last.inspection is not None
    assert (last.n_accepted, len(last.tokens), len(last.draft)) == (2, 2, 4)
    assert last.inspection.declined is None


TAIL = np.zeros(100_000)
"""Over the ten best, token 3 would have 0.5; the other tokens have most of the probability."""
TAIL[3] = np.log(9.0)
WIDE_LOGITS = np.random.default_rng(1).normal(0, 3, 150_000)
"""Logits far below the largest are left out of the sum."""
WIDE_LOGITS[7] = 22.0


@pytest.mark.parametrize(
    ("logits", "token", "probability"),
    [
        pytest.param(np.log([0.1, 0.6, 0.2, 0.1]), 1, 0.6, id="softmax"),
        pytest.param(TAIL, 3, 9 / 100_008, id="a long tail counts"),
        pytest.param(WIDE_LOGITS, 7, 1 / np.exp(WIDE_LOGITS - 22).sum(), id="logits far below the largest"),
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
    assert confidence == pytest.approx(probability, rel=2e-3)
    assert probability_of(row, chosen) == pytest.approx(probability, rel=1e-4)
    assert np.array_equal(row, before)
    assert probability_of(np.array([*row, -np.inf], np.float32), len(row)) == 0.0


@pytest.mark.parametrize("logits", [[np.nan, 1.0], [1.0, np.nan], [np.inf, 1.0], [-np.inf, -np.inf]])
def test_invalid_logits_are_an_error(logits: list[float]) -> None:
    with pytest.raises(DecodeError, match="not numbers"):
        most_probable(np.array(logits, dtype=np.float32))
