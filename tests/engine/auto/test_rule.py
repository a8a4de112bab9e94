"""The value of draft lengths, and the speedup that is possible at all."""

from __future__ import annotations

import pytest

from app.engine.auto.cost_profile import CostProfile
from app.engine.auto.curve import CostModel
from app.engine.auto.rule import LOOK_AHEAD, Rule, ceiling, impossibility

SINGLE = 10e6
RULE = Rule(CostModel(CostProfile({1: SINGLE, 63: 41e6})), n_past=0, rate=1 / SINGLE)
"""Each further token costs a twentieth of the first."""


def products(probability: float, n: int) -> list[float]:
    return [probability**depth for depth in range(1, n + 1)]


def test_a_draft_is_as_long_as_each_token_is_worth_its_cost() -> None:
    value, n = RULE.best_submission(products(0.5, 16))

    # 0.5**4 is more than a twentieth, 0.5**5 less.
    assert n == 4
    assert value == pytest.approx(0.5 + 0.25 + 0.125 + 0.0625 - 4 * 0.05)


def test_an_unlikely_draft_is_not_submitted() -> None:
    assert RULE.best_submission(products(0.04, 16)) == (0.0, 0)


@pytest.mark.parametrize("probability", [0.3, 0.6, 0.8, 0.9])
def test_less_wealth_means_shorter_drafts(probability: float) -> None:
    lengths = [RULE.best_submission(products(probability, 62), wealth=wealth)[1] for wealth in (0.2, 1, 3, 10, 1e9)]

    assert lengths == sorted(lengths)
    assert lengths[0] < lengths[-1] == RULE.best_submission(products(probability, 62))[1]


def test_certain_tokens_need_no_wealth() -> None:
    assert RULE.best_submission([1.0] * 62, wealth=0.01)[1] == 62


def test_the_value_falls_by_the_variance_over_twice_the_wealth() -> None:
    value, n = RULE.best_submission([0.5], wealth=2.0)

    # One token or two, equally likely: a variance of a quarter.
    assert value == pytest.approx(1.5 - 1.05 - 0.25 / 4)
    assert n == 1


@pytest.mark.parametrize("drafted", [(), (0.9,), (0.9, 0.45)])
@pytest.mark.parametrize(("survival", "limit"), [(0.5, 62), (0.95, 62), (0.99, 5), (0.05, 62)])
def test_the_lookahead_is_the_best_value_of_all_longer_drafts(
    drafted: tuple[float, ...], survival: float, limit: int
) -> None:
    # Three tokens cost more than a batch padded to four; the cost of drafted tokens is sunk.
    batch_ns = {1: SINGLE, 2: 1.3 * SINGLE, 3: 2.0 * SINGLE, 4: 1.5 * SINGLE, 9: 1.6 * SINGLE, 63: 4 * SINGLE}
    rule = Rule(CostModel(CostProfile(batch_ns, draft_ns=0.1 * SINGLE)), n_past=0, rate=1.1 / SINGLE)
    k, last = len(drafted), drafted[-1] if drafted else 1.0
    values = []
    for more in range(1, min(LOOK_AHEAD, limit - k) + 1):
        tokens = 1.0 + sum(drafted) + sum(last * survival**n for n in range(1, more + 1))
        cheapest = min(rule.costs.target_ns(n, 0) for n in range(k + more + 1, 64))
        values.append(tokens - rule.rate * (cheapest + more * 0.1 * SINGLE))

    assert rule.best_lookahead(drafted, survival, limit) == pytest.approx(max(values))


def costs(further: float, draft: float) -> CostModel:
    """Return costs of further tokens and of drafted ones, in single tokens."""
    return CostModel(CostProfile({1: 10e6, 63: 10e6 * (1 + 62 * further)}, draft_ns=draft * 10e6))


class TestImpossibility:
    @pytest.mark.parametrize(
        ("further", "draft"), [(1.0, 0.3), (0.02, 1.0)], ids=["linear batches", "slow draft model"]
    )
    def test_drafting_cannot_help_at_high_costs(self, further: float, draft: float) -> None:
        assert impossibility(costs(further, draft), 0, 62)

    def test_low_costs_allow_a_high_speedup(self) -> None:
        assert ceiling(costs(0.02, 0.05), 0, 62, 0.5e6) > 5

    def test_the_reason_names_the_best_batch_size(self) -> None:
        model = CostModel(CostProfile({1: 1e6, 2: 1.95e6, 7: 6.4e6, 8: 6.3e6, 9: 9e6, 63: 65e6}, draft_ns=0.2e6))

        why = "a step with 7 drafted tokens costs 7.7× one token here, so drafting cannot help"
        assert impossibility(model, 0, 62) == why

    def test_an_expensive_second_token_does_not_hide_a_cheap_fourth(self) -> None:
        model = CostModel(CostProfile({1: 10e6, 2: 19e6, 3: 20e6, 4: 20e6, 8: 22e6, 63: 60e6}, draft_ns=0.6e6))

        assert not impossibility(model, 0, 62)
