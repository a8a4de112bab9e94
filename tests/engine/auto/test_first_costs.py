"""Costs of a pair that was never measured, from its first answer."""

from __future__ import annotations

import pytest

from app.engine.auto.curve import CostModel
from app.engine.auto.first_costs import FirstCosts
from app.engine.stats import GenerationStats
from app.engine.types import NO_DRAFT, Draft, Step

SINGLE_NS = 50_000_000


def step(ns: int, draft: Draft = NO_DRAFT, *, is_first: bool = False) -> Step:
    return Step((1,), 0, draft, GenerationStats(verify_steps=0 if is_first else 1), work_ns=ns)


def learned(prompt_n: int, prompt_ns: int, *, max_batch: int = 65, draft_share: float = 0.5) -> CostModel:
    """Return the costs after a prompt and enough single tokens."""
    first = FirstCosts(max_batch, draft_share)
    while not first.observe(step(SINGLE_NS)):
        pass
    return CostModel(first.profile(GenerationStats(prompt_n=prompt_n, prompt_ns=prompt_ns)))


def test_single_tokens_without_a_draft_are_counted_and_one_slow_one_is_ignored() -> None:
    first = FirstCosts(65, 1.0)
    seen = [step(9, is_first=True), step(9, Draft((1,), n_model=1)), step(50), step(51), step(900)]
    assert not any(map(first.observe, seen))
    assert first.observe(step(52))
    assert first.profile(GenerationStats()).batch_ns[1] == 51


@pytest.mark.parametrize(
    ("prompt_n", "prompt_ns", "slope"),
    [
        (101, SINGLE_NS + 100 * SINGLE_NS // 5, 0.25),
        (101, SINGLE_NS, 0.01),
        (101, 200 * SINGLE_NS, 1.0),
        (2, 2 * SINGLE_NS, 0.25),
    ],
    ids=["prompt", "GPU", "disk", "short"],
)
def test_the_prompt_shows_the_cost_of_a_further_token(prompt_n: int, prompt_ns: int, slope: float) -> None:
    costs = learned(prompt_n, prompt_ns)
    assert costs.target_ns(5, 0) == pytest.approx(SINGLE_NS * (1 + 4 * slope))
    assert costs.profile.draft_prompt_ns == pytest.approx(0.5 * slope * SINGLE_NS)


@pytest.mark.parametrize(("share", "cost"), [(0.0, 0.0), (0.02, 0.1), (0.3, 0.3)])
def test_a_drafted_token_costs_what_the_size_of_its_model_says(share: float, cost: float) -> None:
    assert learned(40, SINGLE_NS, draft_share=share).draft_ns(0) == pytest.approx(cost * SINGLE_NS)


def test_no_batch_is_larger_than_the_target_can_roll_back() -> None:
    assert learned(40, SINGLE_NS, max_batch=3).profile.max_batch == 3
    assert learned(40, SINGLE_NS, max_batch=1).profile.batch_ns == {1: SINGLE_NS}
