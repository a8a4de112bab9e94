"""The cost model: prediction, learning, and the separation of load from wrong costs."""

import math
from collections.abc import Iterable, Sequence
from copy import deepcopy
from random import Random
from typing import Any

import pytest

from app.engine.auto.cost_profile import MAX_BATCH, CostProfile
from app.engine.auto.curve import CostModel
from app.engine.auto.rule import ceiling

STAIRCASE = {1: 22.0, 2: 36.0, 3: 53.0, 4: 34.0, 8: 63.0}


def model(**changes: Any) -> CostModel:
    return CostModel(CostProfile({n: ms * 1e6 for n, ms in STAIRCASE.items()}, draft_ns=8e6, **changes))


def test_cached_tokens_add_to_the_cost_of_every_batch() -> None:
    costs = model(context_ns={1: 1000.0, 8: 1700.0, 62: 3000.0})

    assert costs.target_ns(1, 500) - costs.target_ns(1, 0) == pytest.approx(500 * 1000)
    assert costs.target_ns(4, 500) - costs.target_ns(4, 0) == pytest.approx(500 * 1300)
    assert costs.draft_ns(22_000) == pytest.approx(2 * costs.draft_ns(0)), "a long context slows the draft model too"


class TestContext:
    """Learning the cost of a cached token from usual batches."""

    def true_ns(self, size: int, n_past: int) -> float:
        per_token = {1: 6e3, 4: 24e3, 8: 48e3, 62: 200e3}
        return STAIRCASE.get(size, 400.0) * 1e6 + n_past * per_token[size]

    def observe(self, costs: CostModel, lengths: Iterable[int], sizes: Sequence[int]) -> None:
        for i, n_past in enumerate(lengths):
            size = sizes[i % len(sizes)]
            costs.observe_target(size, n_past, self.true_ns(size, n_past))

    def test_small_and_large_batches_separate_context_cost_from_speed(self) -> None:
        costs = model()
        self.observe(costs, range(3000, 4000, 5), (1, 8, 4))

        for size in (1, 4, 8):
            assert costs.target_ns(size, 4000) == pytest.approx(self.true_ns(size, 4000), rel=0.1)
            assert costs.target_ns(size, 0) == pytest.approx(self.true_ns(size, 0), rel=0.35)
        assert costs.snapshot().context_ns[8] == pytest.approx(48e3, rel=0.3)

    def test_many_equal_batches_do_not_change_the_cost_of_a_single_token(self) -> None:
        costs = model()
        self.observe(costs, range(0, 500, 5), (1, 8, 4))
        self.observe(costs, range(500, 8000, 8), (8,))

        assert costs.target_ns(1, 8000) == pytest.approx(self.true_ns(1, 8000), rel=0.25)

    def test_single_tokens_after_a_long_prompt_do_not_look_like_a_slow_machine(self) -> None:
        costs = model()
        self.observe(costs, [8000] * 6, (1,))

        assert costs.target_ns(1, 8000) == pytest.approx(self.true_ns(1, 8000), rel=0.1)
        assert costs.target_ns(1, 0) < 1.5 * self.true_ns(1, 0)

    @pytest.mark.parametrize("known", [{}, {1: 6e3, 8: 48e3, 62: 200e3}], ids=["unknown", "known"])
    def test_short_texts_do_not_change_the_context_cost(self, known: dict[int, float]) -> None:
        costs = model(context_ns=known)
        self.observe(costs, range(1, 40), (1, 8, 4))

        assert costs.snapshot().context_ns == pytest.approx(known, rel=0.1)


@pytest.mark.parametrize(
    ("batches", "least", "most"),
    [
        pytest.param([(1, 44e6)] * 40, 43e6, 45e6, id="a load"),
        pytest.param([(1, 110e6)] * 3, 99e6, 121e6, id="three slow batches are a new speed"),
        pytest.param([(1, 5.5e6)] * 3, 4.95e6, 6.05e6, id="three fast batches are a new speed"),
        pytest.param([(8, 63e6), (8, 12.6e6), (8, 63e6)], 19.8e6, 24.2e6, id="one fast batch is ignored"),
        pytest.param([(1, 440e6)] * 3, 396e6, 484e6, id="a slow period"),
        pytest.param([(1, 440e6)] * 3 + [(8, 63e6)] * 2, 0.0, 66e6, id="two fast batches end a slow period"),
        pytest.param([(1, 220e6), (1, 220e6), (1, 22e6)] * 5, 0.0, 44e6, id="usual batches between slow ones"),
        pytest.param([(8, 220e6)] * 40, 0.0, 66e6, id="expensive large batches are no new speed"),
    ],
)
def test_the_speed_of_the_machine_follows_several_batches(
    batches: list[tuple[int, float]], least: float, most: float
) -> None:
    costs = model()
    for size, ns in batches:
        costs.observe_target(size, 0, ns)
    assert least <= costs.target_ns(1, 0) <= most
    if batches == [(1, 44e6)] * 40:
        assert costs.target_ns(8, 0) > 1.5 * 63e6, "a load changes all sizes alike"


def test_a_wrong_cost_is_corrected_without_changing_other_sizes() -> None:
    costs = model()
    for _ in range(300):
        costs.observe_target(1, 0, 22e6)
        costs.observe_target(4, 0, 50e6)

    assert costs.target_ns(4, 0) == pytest.approx(50e6, rel=0.05)
    assert costs.target_ns(1, 0) == pytest.approx(22e6, rel=0.05)


def test_cheaper_further_tokens_apply_also_to_sizes_that_did_not_run() -> None:
    costs = model()
    for _ in range(12):
        for size in (1, 2, 4):
            costs.observe_target(size, 0, (22.0 + 0.6 * (STAIRCASE[size] - 22.0)) * 1e6)

    assert costs.target_ns(1, 0) == pytest.approx(22e6, rel=0.05)
    assert costs.target_ns(8, 0) == pytest.approx((22 + 0.6 * (63 - 22)) * 1e6, rel=0.15)
    assert costs.snapshot().batch_ns[8] == pytest.approx(costs.target_ns(8, 0))


def test_steepness_does_not_apply_to_a_batch_cheaper_than_a_single_token() -> None:
    costs = CostModel(CostProfile({1: 20e6, 2: 15e6, 4: 60e6}), steepness=10.0)

    assert costs.target_ns(2, 0) == 15e6


def test_costs_stay_stable_over_thousands_of_noisy_steps() -> None:
    # Further tokens cost almost nothing, or two cost less than one, so noise could change the steepness.
    for true_ms in ({1: 10.0, 2: 10.05, 4: 10.1, 8: 10.2, 64: 14.0}, {1: 20.0, 2: 15.0, 4: 60.0, 8: 80.0}):
        random, costs = Random(1), CostModel(CostProfile({size: ms * 1e6 for size, ms in true_ms.items()}))
        for n in range(5000):
            size = random.choice((1, 2, 4, 8))
            costs.observe_target(size, 100 + n % 4000, true_ms[size] * 1e6 * random.lognormvariate(0, 0.05))

        for size in (1, 2, 4, 8):
            assert costs.target_ns(size, 1000) == pytest.approx(true_ms[size] * 1e6, rel=0.15)
        assert 0.4 < costs.steepness < 2.5


def test_one_slow_batch_of_two_of_a_size_changes_little() -> None:
    costs = model()
    expected = costs.target_ns(8, 0)
    for ns in (expected, 20 * expected):
        costs.observe_target(8, 0, ns)

    assert costs.profile.batch_ns[8] == pytest.approx(STAIRCASE[8] * 1e6, rel=0.05)


def test_the_cost_of_drafting_is_learned() -> None:
    costs = CostModel(CostProfile({1: 10e6}))
    for _ in range(60):
        costs.observe_draft(3, 0, 12e6)

    assert costs.draft_ns(0) == pytest.approx(4e6, rel=0.02)


def test_a_batch_that_cannot_be_rolled_back_has_infinite_cost() -> None:
    flat = CostProfile({1: 10e6, 8: 10e6}, max_batch=8)
    costs = CostModel(flat)

    assert costs.target_ns(8, 0) == pytest.approx(10e6)
    assert costs.target_ns(9, 0) == math.inf
    # At most seven drafted tokens: 0.97 + 0.97**2 + ... and the target's own token.
    assert ceiling(costs, 0, 62, 0.0) == pytest.approx(sum(0.97**n for n in range(8)))
    costs.observe_target(8, 0, 11e6)
    assert CostModel(costs.snapshot()).target_ns(9, 0) == math.inf


class TestReading:
    """Learning the cost of a prompt token in the draft model."""

    @pytest.mark.parametrize(
        ("before", "readings", "least", "most"),
        [
            pytest.param(4e6, [(512, 512e6)], 0.5e6, 1.5e6, id="a long prompt corrects the first measurement"),
            pytest.param(1e6, [(512, 51_200e6)], 1e6, 3e6, id="one slow prompt triples the cost at most"),
            # On a GPU, thirty tokens take little longer than one.
            pytest.param(0.02e6, [(30, 1.4e6), (30, 2.1e6), (30, 2.9e6)], 0.02e6, 0.02e6, id="short prompts"),
            pytest.param(0.1e6, [(30, 4.5e6)], 0.0999e6, 0.1001e6, id="the first token does not count"),
        ],
    )
    def test_prompts_correct_the_cost(
        self, before: float, readings: list[tuple[int, float]], least: float, most: float
    ) -> None:
        costs = CostModel(CostProfile({1: 10e6}, draft_ns=1.5e6, draft_prompt_ns=before))
        for n_tokens, ns in readings:
            costs.observe_reading(n_tokens, ns)
        assert least <= costs.profile.draft_prompt_ns <= most

    def test_the_cost_is_relative_to_the_present_speed(self) -> None:
        costs = CostModel(CostProfile({1: 10e6}, draft_prompt_ns=1e6), scale=2.0)
        costs.observe_reading(512, 512 * 2e6)

        assert costs.snapshot().draft_prompt_ns == pytest.approx(2e6)


def test_cached_predictions_equal_fresh_ones_after_every_batch() -> None:
    profile = CostProfile({1: 1000.0, 4: 1300.0, 16: 2500.0, 62: 9000.0})
    costs, uncached = CostModel(deepcopy(profile)), CostModel(profile)
    chance = Random(1)
    for n_past in range(0, 4000, 40):
        predicted = costs.batches_ns(MAX_BATCH, n_past)
        # A copy without any cached prediction.
        fresh = deepcopy(uncached)
        assert predicted[1:] == [fresh.target_ns(size, n_past) for size in range(1, MAX_BATCH + 1)]
        size, ns = chance.choice((1, 4, 16, 62)), chance.uniform(500.0, 20_000.0)
        for one in (costs, uncached):
            one.observe_target(size, n_past, ns)
        assert costs.target_ns(62, n_past) == deepcopy(uncached).target_ns(62, n_past)


def test_each_thread_count_has_its_own_speed() -> None:
    costs = CostModel(CostProfile({1: 100.0, 2: 140.0, 8: 300.0}))
    costs.use_threads(2)
    for _ in range(20):
        costs.observe_target(1, 0, 100.0)
    costs.use_threads(1)
    for _ in range(20):
        costs.observe_target(1, 0, 170.0)
    assert costs.target_ns(1, 0) == pytest.approx(170.0, rel=0.05)
    costs.use_threads(2)
    assert costs.target_ns(1, 0) == pytest.approx(100.0, rel=0.05)
