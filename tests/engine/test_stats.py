"""Counters of an answer and their rates."""

from __future__ import annotations

import pytest

from app.engine.sources import Source
from app.engine.stats import FEWEST_READ, GenerationStats


def test_rates_are_tokens_per_second_and_the_first_token_is_prompt_time() -> None:
    stats = GenerationStats(prompt_n=32, prompt_ns=500_000_000, draft_prompt_ns=1_500_000_000)
    stats.predicted_n, stats.predicted_ns, stats.verify_steps, stats.native_ns = 11, 500_000_000, 5, 499_999_999

    assert stats.reading_per_second == 64.0
    assert stats.prompt_per_second == 16.0
    assert stats.predicted_per_second == 20.0
    assert stats.tokens_per_second == 5.0
    assert stats.mean_accepted_length == 2.0
    assert stats.overhead_ns == 1
    assert stats.acceptance_rate is None
    stats.native_ns = 500_000_002
    assert stats.overhead_ns == 0, "two clocks may differ"


@pytest.mark.parametrize(("n", "ns", "rate"), [(1, 1, 1e9), (0, 1, None), (1, 0, None)])
def test_a_rate_needs_tokens_and_time(n: int, ns: int, rate: float | None) -> None:
    stats = GenerationStats(prompt_n=n, prompt_ns=ns, predicted_n=n + 1, predicted_ns=ns)

    assert (stats.prompt_per_second, stats.predicted_per_second, stats.tokens_per_second) == (rate, rate, rate)


@pytest.mark.parametrize(("n", "rate"), [(FEWEST_READ - 1, None), (FEWEST_READ, FEWEST_READ * 1e9)])
def test_a_few_prompt_tokens_give_no_prefill_speed(n: int, rate: float | None) -> None:
    assert GenerationStats(prompt_n=n, prompt_ns=1).reading_per_second == rate


def test_steps_are_counted_and_accepted_tokens_by_position() -> None:
    stats = GenerationStats()
    model, ngram = Source.MODEL, Source.NGRAM
    for drafted, n_accepted in (((), 0), ((model, model, ngram), 1), ((ngram,) * 4, 3)):
        stats.observe_step(drafted, n_accepted)
    before = stats.snapshot()
    stats.observe_step((model,), 1)

    assert (before.verify_steps, before.drafted_steps) == (3, 2)
    assert (before.draft_n, before.draft_n_model, before.draft_n_accepted) == (7, 2, 4)
    assert before.acceptance_rate == 4 / 7
    assert before.accepted_by_position == (2, 1, 1)
