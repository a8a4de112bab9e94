"""The four guards, and the proof that the ledger holds."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.engine.auto.cost_profile import CostProfile
from app.engine.auto.curve import CostModel
from app.engine.auto.guard import Ledger, Trial
from app.engine.auto.rule import ceiling, impossibility


def costs(row: float, draft: float) -> CostModel:
    return CostModel(CostProfile({1: 10e6, 65: 10e6 * (1 + 64 * row)}, draft_ns=draft * 10e6))


class TestCeiling:
    def test_linear_costs_can_never_pay(self) -> None:
        assert impossibility(costs(row=1.0, draft=0.3), 0, 64)

    def test_free_rows_and_cheap_drafts_can(self) -> None:
        assert ceiling(costs(row=0.02, draft=0.05), 0, 64, 0.5e6) > 5

    def test_a_draft_as_dear_as_the_target_cannot(self) -> None:
        assert impossibility(costs(row=0.02, draft=1.0), 0, 64)

    def test_it_names_the_cheapest_step(self) -> None:
        model = CostModel(CostProfile({1: 1e6, 2: 1.95e6, 7: 6.4e6, 8: 6.3e6, 9: 9e6, 65: 65e6}, draft_ns=0.2e6))

        assert impossibility(model, 0, 64) == "verifying 8 tokens costs 7.7× one token here, so drafting cannot help"

    def test_a_dear_second_row_does_not_hide_a_cheap_fourth(self) -> None:
        model = CostModel(CostProfile({1: 10e6, 2: 19e6, 3: 20e6, 4: 20e6, 8: 22e6, 65: 60e6}, draft_ns=0.6e6))

        assert not impossibility(model, 0, 64)


class TestTrial:
    def test_losing_rounds_turn_it_off_after_some_patience(self) -> None:
        trial = Trial()
        verdicts = []
        for _ in range(Trial.PATIENCE):
            verdicts.append(trial.on)
            trial.observe_step(-0.4)

        assert verdicts == [True] * Trial.PATIENCE
        assert not trial.on

    def test_luck_that_evens_out_does_not(self) -> None:
        trial = Trial()
        for n in range(100):
            trial.observe_step(1.5 if n % 3 == 0 else -0.5)

        assert trial.on

    def test_looks_that_cost_little_are_the_price_of_seeing_the_text_become_easy(self) -> None:
        trial = Trial()
        looks = 0
        while trial.on:
            trial.observe_step(-0.05)
            looks += 1

        assert looks == math.ceil(Trial.STAKE / 0.05)

    def test_what_was_won_long_ago_is_no_stake(self) -> None:
        trial = Trial()
        trial.observe_step(20.0)
        for _ in range(40):
            trial.observe_step(-0.2)

        assert not trial.on

    def test_a_probe_lasts_until_it_has_told_something(self) -> None:
        trial = self.off()
        trial.observe_undrafted(Trial.FIRST_GAP)
        looks = 0
        while trial.allows_step():
            trial.observe_step(-0.1)
            looks += 1

        assert looks == 3
        assert not trial.on

    def test_it_waits_probes_and_doubles_the_wait(self) -> None:
        trial = self.off()
        gaps = []
        for _ in range(5):
            waited = 0
            while not trial.allows_step():
                trial.observe_undrafted(1)
                waited += 1
            gaps.append(waited)
            while trial.allows_step():
                trial.observe_step(-1.0)

        assert gaps == [16, 32, 64, 128, 256]

    def test_a_probe_that_gains_turns_it_on(self) -> None:
        trial = self.off()
        trial.observe_undrafted(Trial.FIRST_GAP)
        assert trial.allows_step()
        trial.observe_step(-0.1)
        trial.observe_step(2.0)

        assert trial.on

    def test_a_new_answer_is_probed_at_once(self) -> None:
        trial = self.off()
        assert not trial.allows_step()
        trial.begin()

        assert trial.allows_step()

    @pytest.mark.parametrize(
        ("advantages", "on"),
        [
            ((0.0, -1.0, 0.6), True),
            ((-1.0, 0.2, 1.0, -0.5), True),
            ((-1.0, -1.0, 0.5), False),
        ],
    )
    def test_it_goes_off_where_so_few_rounds_say_that_drafts_lose_and_not_by_chance(
        self, advantages: tuple[float, ...], on: bool
    ) -> None:
        trial = Trial()
        for advantage in advantages:
            trial.observe_step(advantage)

        assert trial.on is on

    def test_the_first_round_says_all_and_later_ones_their_part(self) -> None:
        trial = Trial()
        trial.observe_step(1.0)
        assert (trial.mean, trial.variance) == (1.0, 0.0)
        trial.observe_step(0.0)
        assert (trial.mean, trial.variance) == pytest.approx((0.8, 0.8 * 0.2))

    def test_what_was_just_won_is_no_stake_either(self) -> None:
        trial = Trial()
        trial.observe_step(0.4)

        assert trial.balance == 0.0

    @pytest.mark.parametrize(
        ("advantage", "on", "waits"), [(0.1, True, False), (0.0, False, False), (-0.3, False, True)]
    )
    def test_a_probe_ends_with_any_gain_and_with_the_whole_stake(self, advantage: float, on: bool, waits: bool) -> None:
        trial = self.off()
        trial.observe_undrafted(Trial.FIRST_GAP)
        trial.observe_step(advantage)

        assert (trial.on, not trial.allows_step()) == (on, waits)

    def test_a_new_answer_knows_nothing_of_another_text(self) -> None:
        trial = Trial()
        trial.observe_step(-0.2)
        trial.observe_step(0.1)
        trial.begin()

        assert trial == Trial(waited=Trial.FIRST_GAP)

    @staticmethod
    def off() -> Trial:
        trial = Trial()
        while trial.on:
            trial.observe_step(-1.0)
        return trial


class TestLedger:
    def test_a_series_of_losses_blocks_and_plain_tokens_pay_it_back(self) -> None:
        ledger = Ledger()
        while ledger.allows_model:
            ledger.observe(1, 2.0, 1.0, drafted=True)
        tokens = 0
        while not ledger.allows_model:
            ledger.observe(1, 1.0, 1.0, drafted=False)
            tokens += 1

        assert tokens >= (Ledger.PROBE - 1.0) / Ledger.INTEREST

    def test_drafts_that_cost_nothing_to_make_have_a_reserve(self) -> None:
        ledger = Ledger()
        while ledger.allows_model:
            ledger.observe(1, 2.0, 1.0, drafted=True)

        assert ledger.allows_any
        for _ in range(round(Ledger.RESERVE)):
            ledger.observe(1, 2.0, 1.0, drafted=True)
        assert not ledger.allows_any

    def test_what_drafts_win_and_lose_is_what_a_look_up_may_stake(self) -> None:
        ledger = Ledger()
        first = ledger.wealth
        ledger.observe(4, 2.0, 1.0, drafted=True)
        assert ledger.wealth == first + 2.0
        for _ in range(4):
            ledger.observe(1, 3.0, 1.0, drafted=True)
        assert ledger.wealth == Ledger.LEAST_WEALTH

    @given(st.lists(st.tuples(st.integers(1, 9), st.floats(0.5, 12.0)), min_size=1, max_size=300))
    def test_no_stretch_of_an_answer_loses_more_than_the_cap_and_one_round(
        self, rounds: list[tuple[int, float]]
    ) -> None:
        ledger = Ledger()
        stretches: list[tuple[float, int]] = [(0.0, 0)]
        worst = max(cost for _, cost in rounds)
        spent, emitted = 0.0, 0
        for tokens, cost in rounds:
            if ledger.allows_any:
                ledger.observe(tokens, cost, 1.0, drafted=True)
                spent, emitted = spent + cost, emitted + tokens
            else:
                ledger.observe(1, 1.0, 1.0, drafted=False)
                spent, emitted = spent + 1.0, emitted + 1
            stretches.append((spent, emitted))
        for i, (spent_before, emitted_before) in enumerate(stretches):
            for spent_after, emitted_after in stretches[i + 1 :]:
                n = emitted_after - emitted_before
                assert (
                    spent_after - spent_before <= n * (1 + Ledger.INTEREST) + Ledger.CAP + Ledger.RESERVE + worst + 1e-9
                )

    def test_the_draft_model_is_let_in_again_by_what_a_probe_takes(self) -> None:
        ledger = Ledger(balance=1.0)
        told = []
        for change in (-1.0, 0.5, 0.5):
            ledger.observe(1, 1.0 - change, 1.0, drafted=True)
            told.append(ledger.allows_model)

        assert told == [False, False, True]

    def test_an_answer_may_lose_little_where_the_one_before_lost_all(self) -> None:
        ledger = Ledger()
        ledger.observe(1, 50.0, 1.0, drafted=True)
        ledger.begin()

        assert ledger.allows_model
        assert ledger.balance == pytest.approx(Ledger.REFILL)

    def test_what_one_answer_won_is_not_the_next_ones_to_lose(self) -> None:
        ledger = Ledger()
        ledger.observe(20, 1.0, 1.0, drafted=True)
        ledger.begin()

        assert ledger.balance == pytest.approx(Ledger.START)
