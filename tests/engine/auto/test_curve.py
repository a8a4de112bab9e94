"""The cost model: staircases stay staircases, and load is told from a wrong curve."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from copy import deepcopy
from random import Random
from typing import Any

import pytest

from app.engine.auto.cost_profile import MAX_BATCH, CostProfile, envelope, expand
from app.engine.auto.curve import CostModel
from app.engine.auto.rule import ceiling

STAIRCASE = {1: 22.0, 2: 36.0, 3: 53.0, 4: 34.0, 8: 63.0}


def model(**changes: Any) -> CostModel:
    return CostModel(CostProfile({n: ms * 1e6 for n, ms in STAIRCASE.items()}, draft_ns=8e6, **changes))


def test_measured_widths_are_kept_and_the_rest_lies_between() -> None:
    costs = expand(STAIRCASE, 12)

    assert [costs[n] for n in (1, 2, 3, 4, 8)] == [22, 36, 53, 34, 63]
    assert costs[6] == pytest.approx((34 + 63) / 2)
    assert costs[12] == pytest.approx(63 + 4 * (63 - 22) / 7)


def test_one_measured_width_is_enough() -> None:
    assert expand({1: 10.0}, 3) == [0.0, 10.0, 20.0, 30.0]


def test_a_narrow_batch_never_costs_more_than_a_wider_one_filled_up() -> None:
    costs = model()

    assert costs.padded_ns(2, 0) == costs.padded_ns(3, 0) == costs.target_ns(4, 0)
    assert costs.target_ns(3, 0) > costs.target_ns(4, 0)
    assert envelope([0.0, 5.0, 9.0, 6.0, 4.0, 7.0])[1:] == [4.0, 4.0, 4.0, 4.0, 7.0]


def test_the_cache_adds_to_every_batch() -> None:
    costs = model(context_ns={1: 1000.0, 8: 1700.0, 64: 3000.0})

    assert costs.target_ns(1, 500) - costs.target_ns(1, 0) == pytest.approx(500 * 1000)
    assert costs.target_ns(4, 500) - costs.target_ns(4, 0) == pytest.approx(500 * 1300)
    assert costs.padded_ns(2, 500) == pytest.approx(min(costs.target_ns(n, 500) for n in range(2, 65)))


def test_a_long_context_slows_the_draft_model_too() -> None:
    costs = model(context_ns={1: 2200.0, 8: 2200.0, 64: 2200.0})

    assert costs.draft_ns(10_000) == pytest.approx(2 * costs.draft_ns(0))


class TestContext:
    """What a cached token costs is learned from batches that no one chose for it."""

    def true_ns(self, rows: int, n_past: int) -> float:
        per_cell = {1: 6e3, 4: 24e3, 8: 48e3, 64: 200e3}
        return STAIRCASE.get(rows, 400.0) * 1e6 + n_past * per_cell[rows]

    def watch(self, costs: CostModel, lengths: Iterable[int], widths: Sequence[int]) -> None:
        for i, n_past in enumerate(lengths):
            rows = widths[i % len(widths)]
            costs.observe_target(rows, n_past, self.true_ns(rows, n_past))

    def test_narrow_and_wide_batches_tell_it_from_the_speed(self) -> None:
        costs = model()
        self.watch(costs, range(3000, 4000, 5), (1, 8, 4))

        for rows in (1, 4, 8):
            assert costs.target_ns(rows, 4000) == pytest.approx(self.true_ns(rows, 4000), rel=0.1)
            assert costs.target_ns(rows, 0) == pytest.approx(self.true_ns(rows, 0), rel=0.35)
        assert costs.snapshot().context_ns[8] == pytest.approx(48e3, rel=0.3)

    def test_a_text_that_repeats_itself_does_not_hide_what_a_single_row_costs(self) -> None:
        costs = model()
        self.watch(costs, range(0, 500, 5), (1, 8, 4))
        self.watch(costs, range(500, 8000, 8), (8,))

        assert costs.target_ns(1, 8000) == pytest.approx(self.true_ns(1, 8000), rel=0.25)

    def test_after_a_long_prompt_single_rows_are_not_taken_for_a_slow_machine(self) -> None:
        costs = model()
        self.watch(costs, [8000] * 6, (1,))

        assert costs.target_ns(1, 8000) == pytest.approx(self.true_ns(1, 8000), rel=0.1)
        assert costs.target_ns(1, 0) < 1.5 * self.true_ns(1, 0)

    def test_short_texts_say_nothing_about_it(self) -> None:
        costs = model()
        self.watch(costs, range(1, 40), (1, 8, 4))

        assert costs.snapshot().context_ns == {}

    def test_what_is_known_is_kept(self) -> None:
        costs = model(context_ns={1: 6e3, 8: 48e3, 64: 200e3})
        self.watch(costs, range(1, 40), (1, 8, 4))

        assert costs.snapshot().context_ns == pytest.approx({1: 6e3, 8: 48e3, 64: 200e3}, rel=0.1)


def test_all_widths_at_once_cost_what_they_cost_one_by_one() -> None:
    costs = model(context_ns={1: 6e3, 8: 48e3, 64: 384e3})
    fresh = deepcopy(costs)
    one_by_one = [fresh.target_ns(rows, 100) for rows in range(1, 5)]

    assert costs.batches_ns(4, 100)[1:] == one_by_one
    assert costs.target_ns(5, 100) == fresh.target_ns(5, 100)
    assert len(costs.batches_ns(9, 100)) == 10
    assert costs.batches_ns(4, 100)[1:] == one_by_one


def test_load_moves_every_width_alike() -> None:
    costs = model()
    before = costs.target_ns(8, 0)
    for _ in range(40):
        costs.observe_target(1, 0, 44e6)

    assert costs.target_ns(1, 0) == pytest.approx(44e6, rel=0.02)
    assert costs.target_ns(8, 0) > 1.5 * before


@pytest.mark.parametrize("ns", [110e6, 5.5e6])
def test_another_speed_of_the_machine_is_taken_over_after_three_batches(ns: float) -> None:
    costs = model()
    for _ in range(3):
        costs.observe_target(1, 0, ns)

    assert costs.target_ns(1, 0) == pytest.approx(ns, rel=0.1)


def test_one_batch_that_seems_impossible_is_not_believed() -> None:
    costs = model()
    costs.observe_target(8, 0, 63e6)
    costs.observe_target(8, 0, 0.2 * 63e6)
    costs.observe_target(8, 0, 63e6)

    assert costs.target_ns(1, 0) == pytest.approx(22e6, rel=0.1)


def test_a_speed_that_is_over_is_forgotten_with_two_batches_of_any_width() -> None:
    costs = model()
    for _ in range(3):
        costs.observe_target(1, 0, 20 * 22e6)
    slow = costs.scale
    for _ in range(2):
        costs.observe_target(8, 0, 63e6)

    assert slow == pytest.approx(20, rel=0.1)
    assert costs.target_ns(1, 0) < 3 * 22e6


def test_hiccups_with_a_usual_batch_between_them_are_no_other_speed() -> None:
    costs = model()
    for ns in (220e6, 220e6, 22e6) * 5:
        costs.observe_target(1, 0, ns)

    assert costs.target_ns(1, 0) < 2 * 22e6


def test_wide_batches_that_cost_more_than_was_thought_are_no_other_speed() -> None:
    costs = model()
    for _ in range(40):
        costs.observe_target(8, 0, 10 * 22e6)

    assert costs.target_ns(1, 0) < 3 * 22e6
    assert costs.target_ns(8, 0) == pytest.approx(220e6, rel=0.1)


def test_a_wrong_width_is_corrected_without_moving_the_others() -> None:
    costs = model()
    for _ in range(300):
        costs.observe_target(1, 0, 22e6)
        costs.observe_target(4, 0, 50e6)

    assert costs.target_ns(4, 0) == pytest.approx(50e6, rel=0.05)
    assert costs.target_ns(1, 0) == pytest.approx(22e6, rel=0.05)


def test_further_rows_that_cost_less_are_expected_to_do_so_at_widths_that_were_not_run() -> None:
    costs = model()
    for _ in range(12):
        for rows in (1, 2, 4):
            costs.observe_target(rows, 0, (22.0 + 0.6 * (STAIRCASE[rows] - 22.0)) * 1e6)

    assert costs.target_ns(1, 0) == pytest.approx(22e6, rel=0.05)
    assert costs.target_ns(8, 0) == pytest.approx((22 + 0.6 * (63 - 22)) * 1e6, rel=0.15)
    assert costs.snapshot().batch_ns[8] == pytest.approx(costs.target_ns(8, 0))


def test_a_single_row_says_nothing_about_further_ones() -> None:
    costs = model()
    for _ in range(40):
        costs.observe_target(1, 0, 30e6)

    assert costs.steepness == pytest.approx(1.0, abs=0.02)


def test_a_batch_that_is_cheaper_than_a_single_row_stays_so_on_a_steep_machine() -> None:
    costs = CostModel(CostProfile({1: 20e6, 2: 15e6, 4: 60e6}), steepness=10.0)

    assert costs.target_ns(2, 0) == 15e6


def test_thousands_of_rounds_leave_the_costs_what_they_are() -> None:
    """Where further rows cost next to nothing, and where two cost less than one, noise says nothing of steepness."""
    for true in ({1: 10.0, 2: 10.05, 4: 10.1, 8: 10.2, 64: 14.0}, {1: 20.0, 2: 15.0, 4: 60.0, 8: 80.0}):
        random, costs = Random(1), CostModel(CostProfile({rows: ms * 1e6 for rows, ms in true.items()}))
        for n in range(5000):
            rows = random.choice((1, 2, 4, 8))
            costs.observe_target(rows, 100 + n % 4000, true[rows] * 1e6 * random.lognormvariate(0, 0.05))

        for rows in (1, 2, 4, 8):
            assert costs.target_ns(rows, 1000) == pytest.approx(true[rows] * 1e6, rel=0.15)
        assert 0.4 < costs.steepness < 2.5


def test_one_hiccup_changes_little() -> None:
    costs = model()
    costs.observe_target(4, 0, 5e9)

    assert costs.target_ns(1, 0) < 1.05 * 22e6


def test_a_hiccup_among_two_looks_at_a_width_changes_little() -> None:
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


def test_a_batch_that_cannot_be_taken_back_is_worth_nothing() -> None:
    flat = CostProfile({1: 10e6, 8: 10e6}, max_batch=8)
    costs = CostModel(flat)

    assert costs.target_ns(8, 0) == pytest.approx(10e6)
    assert costs.target_ns(9, 0) == costs.padded_ns(9, 0) == math.inf
    # Seven drafted tokens at most: 0.97 + 0.97**2 + ... and the target's own.
    assert ceiling(costs, 0, 64, 0.0) == pytest.approx(sum(0.97**n for n in range(8)))
    costs.observe_target(8, 0, 11e6)
    assert CostModel(costs.snapshot()).target_ns(9, 0) == math.inf


class TestReading:
    """What a prompt token costs the draft model."""

    def test_a_long_prompt_says_more_than_the_first_measurement(self) -> None:
        costs = CostModel(CostProfile({1: 10e6}, draft_prompt_ns=4e6))
        costs.observe_reading(512, 512 * 1e6)

        assert costs.profile.draft_prompt_ns == pytest.approx(1e6, rel=0.5)

    def test_one_hiccup_makes_it_no_more_than_three_times_as_dear(self) -> None:
        costs = CostModel(CostProfile({1: 10e6}, draft_prompt_ns=1e6))
        costs.observe_reading(512, 512 * 100e6)

        assert costs.profile.draft_prompt_ns <= 3e6

    def test_it_is_told_at_the_speed_that_the_machine_has(self) -> None:
        costs = CostModel(CostProfile({1: 10e6}, draft_prompt_ns=1e6), scale=2.0)
        costs.observe_reading(512, 512 * 2e6)

        assert costs.snapshot().draft_prompt_ns == pytest.approx(2e6)

    def test_a_short_prompt_does_not_make_long_ones_look_dear(self) -> None:
        # A card: thirty tokens take little longer than one, and that one is most of it.
        costs = CostModel(CostProfile({1: 10e6}, draft_ns=1.5e6, draft_prompt_ns=0.02e6))
        for ns in (1.4e6, 2.1e6, 2.9e6):
            costs.observe_reading(30, ns)

        assert costs.profile.draft_prompt_ns == 0.02e6

    def test_what_the_first_token_takes_is_not_every_tokens(self) -> None:
        costs = CostModel(CostProfile({1: 10e6}, draft_ns=1.5e6, draft_prompt_ns=0.1e6))
        costs.observe_reading(30, 4.5e6)

        assert costs.profile.draft_prompt_ns == pytest.approx(0.1e6)

    def test_a_few_tokens_take_as_long_as_one(self) -> None:
        costs = CostModel(CostProfile({1: 10e6}, draft_prompt_ns=1e6))
        costs.observe_reading(3, 10e6)

        assert costs.profile.draft_prompt_ns == 1e6


def test_every_width_up_to_the_widest_has_a_cost() -> None:
    costs = model()

    assert all(costs.target_ns(rows, 0) > 0 for rows in range(1, MAX_BATCH + 1))


def test_what_batches_cost_is_told_anew_after_every_batch() -> None:
    profile = CostProfile({1: 1000.0, 4: 1300.0, 16: 2500.0, 64: 9000.0})
    costs, never_asked = CostModel(deepcopy(profile)), CostModel(profile)
    chance = Random(1)
    for n_past in range(0, 4000, 40):
        told = costs.batches_ns(MAX_BATCH, n_past)
        padded = costs.padded_batches_ns(1, MAX_BATCH, n_past)
        # One that is asked for the first time has nothing in mind.
        anew = deepcopy(never_asked)
        assert told[1:] == [anew.target_ns(rows, n_past) for rows in range(1, MAX_BATCH + 1)]
        assert padded == [anew.padded_ns(rows, n_past) for rows in range(1, MAX_BATCH + 1)]
        rows, ns = chance.choice((1, 4, 16, 64)), chance.uniform(500.0, 20_000.0)
        for one in (costs, never_asked):
            # Behind the same context, as it is asked right after a batch was told to it.
            one.observe_target(rows, n_past, ns)
        assert costs.target_ns(64, n_past) == deepcopy(never_asked).target_ns(64, n_past)


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
