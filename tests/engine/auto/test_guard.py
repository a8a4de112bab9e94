"""The length of a draft: its value, the trial of the draft model, and the limit of losses."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.engine.auto.cost_profile import CostProfile
from app.engine.auto.curve import CostModel
from app.engine.auto.guard import Ledger, Trial
from app.engine.auto.rule import LOOK_AHEAD, Rule, ceiling, impossibility

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

    @pytest.mark.parametrize(
        ("advantages", "on", "waits"),
        [([0.1], True, False), ([0.0], False, False), ([-0.3], False, True), ([-0.1] * 3, False, True)],
    )
    def test_a_probe_ends_with_any_gain_or_with_the_stake_lost(
        self, advantages: list[float], on: bool, waits: bool
    ) -> None:
        trial = self.off()
        assert not trial.allows_step()
        # A new answer starts with a probe.
        trial.begin()
        for advantage in advantages:
            assert trial.allows_step()
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
        assert ledger.allows_any, "n-gram drafts have a reserve"
        for _ in range(round(Ledger.RESERVE)):
            ledger.observe(1, 2.0, 1.0, drafted=True)
        assert not ledger.allows_any
        tokens = 0
        while ledger.blocked:
            ledger.observe(1, 1.0, 1.0, drafted=False)
            tokens += 1

        assert tokens >= (Ledger.PROBE + Ledger.RESERVE - 1.0) / Ledger.INTEREST

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

    @pytest.mark.parametrize(("tokens", "cost", "balance"), [(1, 50.0, Ledger.REFILL), (20, 1.0, Ledger.START)])
    def test_a_new_answer_limits_the_balance_in_both_directions(self, tokens: int, cost: float, balance: float) -> None:
        ledger = Ledger()
        ledger.observe(tokens, cost, 1.0, drafted=True)
        ledger.begin()

        assert not ledger.blocked
        assert ledger.balance == pytest.approx(balance)


SINGLE = 10e6
RULE = Rule(CostModel(CostProfile({1: SINGLE, 63: 41e6})), n_past=0, rate=1 / SINGLE)
"""Each further token costs a twentieth of the first."""


def products(probability: float, n: int) -> list[float]:
    return [probability**depth for depth in range(1, n + 1)]


@pytest.mark.parametrize(
    ("drafted", "wealth", "value", "n"),
    [
        # 0.5**4 is more than a twentieth, 0.5**5 less.
        pytest.param(products(0.5, 16), math.inf, 0.5 + 0.25 + 0.125 + 0.0625 - 4 * 0.05, 4, id="worth its cost"),
        pytest.param(products(0.04, 16), math.inf, 0.0, 0, id="unlikely"),
        pytest.param([1.0] * 62, 0.01, 62 - 62 * 0.05, 62, id="certain tokens need no wealth"),
        # One token or two, equally likely: a variance of a quarter.
        pytest.param([0.5], 2.0, 1.5 - 1.05 - 0.25 / 4, 1, id="variance over twice the wealth"),
    ],
)
def test_the_most_valuable_part_of_a_draft_is_submitted(
    drafted: list[float], wealth: float, value: float, n: int
) -> None:
    best, length = RULE.best_submission(drafted, wealth=wealth)
    assert (length, round(best - value, 6)) == (n, 0.0)


@pytest.mark.parametrize("probability", [0.3, 0.6, 0.8, 0.9])
def test_less_wealth_means_shorter_drafts(probability: float) -> None:
    lengths = [RULE.best_submission(products(probability, 62), wealth=wealth)[1] for wealth in (0.2, 1, 3, 10, 1e9)]

    assert lengths == sorted(lengths)
    assert lengths[0] < lengths[-1] == RULE.best_submission(products(probability, 62))[1]


@pytest.mark.parametrize("drafted", [(), (0.9,), (0.9, 0.45)])
@pytest.mark.parametrize(("survival", "limit"), [(0.5, 62), (0.95, 62), (0.99, 5), (0.05, 62)])
def test_the_lookahead_is_the_best_value_of_all_longer_drafts(
    drafted: tuple[float, ...], survival: float, limit: int
) -> None:
    # Three tokens cost more than four; the cost of drafted tokens is sunk.
    batch_ns = {1: SINGLE, 2: 1.3 * SINGLE, 3: 2.0 * SINGLE, 4: 1.5 * SINGLE, 9: 1.6 * SINGLE, 63: 4 * SINGLE}
    rule = Rule(CostModel(CostProfile(batch_ns, draft_ns=0.1 * SINGLE)), n_past=0, rate=1.1 / SINGLE)
    k, last = len(drafted), drafted[-1] if drafted else 1.0
    values = []
    for more in range(1, min(LOOK_AHEAD, limit - k) + 1):
        tokens = 1.0 + sum(drafted) + sum(last * survival**n for n in range(1, more + 1))
        batch = rule.costs.target_ns(k + more + 1, 0)
        values.append(tokens - rule.rate * (batch + more * 0.1 * SINGLE))

    assert rule.best_lookahead(drafted, survival, limit) == pytest.approx(max(values))


@pytest.mark.parametrize(
    ("batch_ns", "draft_ns", "why"),
    [
        pytest.param({1: 10e6, 63: 630e6}, 3e6, "drafted token costs 2.3×", id="linear batches"),
        pytest.param({1: 10e6, 63: 22.4e6}, 10e6, "so drafting cannot help", id="slow draft model"),
        pytest.param(
            {1: 1e6, 2: 1.95e6, 7: 6.4e6, 8: 6.3e6, 9: 9e6, 63: 65e6},
            0.2e6,
            "a step with 7 drafted tokens costs 7.7× one token here, so drafting cannot help",
            id="the best batch size is named",
        ),
        pytest.param(
            {1: 10e6, 2: 19e6, 3: 20e6, 4: 20e6, 8: 22e6, 63: 60e6}, 0.6e6, None, id="cheap fourth, expensive second"
        ),
    ],
)
def test_drafting_that_cannot_help_has_a_reason(batch_ns: dict[int, float], draft_ns: float, why: str | None) -> None:
    found = impossibility(CostModel(CostProfile(batch_ns, draft_ns=draft_ns)), 0, 62)
    assert found is None if why is None else why in (found or "")


def test_low_costs_allow_a_high_speedup() -> None:
    assert ceiling(CostModel(CostProfile({1: 10e6, 63: 22.4e6})), 0, 62, 0.5e6) > 5
