"""The trial of the draft model, and the limit of losses."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.engine.auto.guard import Ledger, Trial

SMALL_LOSSES = math.ceil(Trial.STAKE / 0.05)


class TestTrial:
    @pytest.mark.parametrize(
        ("advantages", "on"),
        [
            pytest.param([-0.4] * (Trial.PATIENCE - 1), True, id="losses within the patience"),
            pytest.param([-0.4] * Trial.PATIENCE, False, id="losses beyond the patience"),
            pytest.param([1.5, -0.5, -0.5] * 34, True, id="balanced gains and losses"),
            pytest.param([-0.05] * (SMALL_LOSSES - 1), True, id="small losses within the stake"),
            pytest.param([-0.05] * SMALL_LOSSES, False, id="small losses beyond the stake"),
            pytest.param([20.0] + [-0.2] * 40, False, id="old gains do not pay for losses"),
            pytest.param([0.0, -1.0, 0.6], True, id="no significant loss"),
            pytest.param([-1.0, 0.2, 1.0, -0.5], True, id="a few gains and losses"),
            pytest.param([-1.0, -1.0, 0.5], False, id="a significant loss of few steps"),
        ],
    )
    def test_losing_steps_turn_the_model_off(self, advantages: list[float], on: bool) -> None:
        trial = Trial()
        for advantage in advantages:
            trial.observe_step(advantage)
        assert trial.on is on

    def test_a_probe_lasts_until_it_lost_the_stake(self) -> None:
        trial = self.off()
        trial.observe_undrafted(Trial.FIRST_GAP)
        n_steps = 0
        while trial.allows_step():
            trial.observe_step(-0.1)
            n_steps += 1

        assert n_steps == 3
        assert not trial.on

    def test_each_lost_probe_doubles_the_gap(self) -> None:
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

    def test_a_new_answer_starts_with_a_probe(self) -> None:
        trial = self.off()
        assert not trial.allows_step()
        trial.begin()

        assert trial.allows_step()

    @pytest.mark.parametrize(
        ("advantage", "on", "waits"), [(0.1, True, False), (0.0, False, False), (-0.3, False, True)]
    )
    def test_a_probe_ends_with_any_gain_or_with_the_stake_lost(self, advantage: float, on: bool, waits: bool) -> None:
        trial = self.off()
        trial.observe_undrafted(Trial.FIRST_GAP)
        trial.observe_step(advantage)

        assert (trial.on, not trial.allows_step()) == (on, waits)

    @staticmethod
    def off() -> Trial:
        trial = Trial()
        while trial.on:
            trial.observe_step(-1.0)
        return trial


class TestLedger:
    def test_losses_block_the_model_until_single_tokens_pay_for_a_probe(self) -> None:
        ledger = Ledger()
        while not ledger.blocked:
            ledger.observe(1, 2.0, 1.0, drafted=True)
        tokens = 0
        while ledger.blocked:
            ledger.observe(1, 1.0, 1.0, drafted=False)
            tokens += 1

        assert tokens >= (Ledger.PROBE - 1.0) / Ledger.INTEREST

    def test_ngram_drafts_have_a_reserve(self) -> None:
        ledger = Ledger()
        while not ledger.blocked:
            ledger.observe(1, 2.0, 1.0, drafted=True)

        assert ledger.allows_any
        for _ in range(round(Ledger.RESERVE)):
            ledger.observe(1, 2.0, 1.0, drafted=True)
        assert not ledger.allows_any

    def test_gains_and_losses_change_the_wealth_of_ngram_drafts(self) -> None:
        ledger = Ledger()
        first = ledger.wealth
        ledger.observe(4, 2.0, 1.0, drafted=True)
        assert ledger.wealth == first + 2.0
        for _ in range(4):
            ledger.observe(1, 3.0, 1.0, drafted=True)
        assert ledger.wealth == Ledger.LEAST_WEALTH

    @given(st.lists(st.tuples(st.integers(1, 9), st.floats(0.5, 12.0)), min_size=1, max_size=300))
    def test_no_part_of_an_answer_loses_more_than_the_limit(self, steps: list[tuple[int, float]]) -> None:
        ledger = Ledger()
        stretches: list[tuple[float, int]] = [(0.0, 0)]
        worst = max(cost for _, cost in steps)
        spent, emitted = 0.0, 0
        for tokens, cost in steps:
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

    def test_an_answer_after_large_losses_may_lose_little(self) -> None:
        ledger = Ledger()
        ledger.observe(1, 50.0, 1.0, drafted=True)
        ledger.begin()

        assert not ledger.blocked
        assert ledger.balance == pytest.approx(Ledger.REFILL)

    def test_gains_of_one_answer_cannot_be_lost_in_the_next(self) -> None:
        ledger = Ledger()
        ledger.observe(20, 1.0, 1.0, drafted=True)
        ledger.begin()

        assert ledger.balance == pytest.approx(Ledger.START)
