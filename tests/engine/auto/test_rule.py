"""The rule: most expected tokens for their price, and less of a gamble where little may be lost."""

from __future__ import annotations

import pytest

from app.engine.auto.cost_profile import CostProfile
from app.engine.auto.curve import CostModel
from app.engine.auto.rule import LOOK_AHEAD, Rule

PLAIN = 10e6
RULE = Rule(CostModel(CostProfile({1: PLAIN, 65: 42e6})), n_past=0, rate=1 / PLAIN)
"""Every row more takes a twentieth of the first."""


def products(probability: float, n: int) -> list[float]:
    return [probability**depth for depth in range(1, n + 1)]


def test_a_draft_goes_as_far_as_its_tokens_are_worth_their_rows() -> None:
    value, n = RULE.best_submission(products(0.5, 16))

    # 0.5 to the fourth is more than a twentieth, to the fifth less.
    assert n == 4
    assert value == pytest.approx(0.5 + 0.25 + 0.125 + 0.0625 - 4 * 0.05)


def test_what_is_surely_wrong_is_not_submitted() -> None:
    assert RULE.best_submission(products(0.04, 16)) == (0.0, 0)


@pytest.mark.parametrize("probability", [0.3, 0.6, 0.8, 0.9])
def test_the_less_may_be_lost_the_shorter_the_draft(probability: float) -> None:
    lengths = [RULE.best_submission(products(probability, 63), wealth=wealth)[1] for wealth in (0.2, 1, 3, 10, 1e9)]

    assert lengths == sorted(lengths)
    assert lengths[0] < lengths[-1] == RULE.best_submission(products(probability, 63))[1]


def test_what_is_certain_is_no_gamble() -> None:
    assert RULE.best_submission([1.0] * 63, wealth=0.01)[1] == 63


def test_variance_counts_by_half_over_the_wealth() -> None:
    value, n = RULE.best_submission([0.5], wealth=2.0)

    # One token or two, each as likely: a variance of a quarter.
    assert value == pytest.approx(1.5 - 1.05 - 0.25 / 4)
    assert n == 1


@pytest.mark.parametrize("drafted", [(), (0.9,), (0.9, 0.45)])
@pytest.mark.parametrize(("survival", "limit"), [(0.5, 64), (0.95, 64), (0.99, 5), (0.05, 64)])
def test_drafting_on_is_worth_the_best_of_what_it_may_come_to(
    drafted: tuple[float, ...], survival: float, limit: int
) -> None:
    # Three rows cost more than four, which can be filled up; what is drafted already is paid.
    rows = {1: PLAIN, 2: 1.3 * PLAIN, 3: 2.0 * PLAIN, 4: 1.5 * PLAIN, 9: 1.6 * PLAIN, 65: 4 * PLAIN}
    rule = Rule(CostModel(CostProfile(rows, draft_ns=0.1 * PLAIN)), n_past=0, rate=1.1 / PLAIN)
    k, last = len(drafted), drafted[-1] if drafted else 1.0
    worth = []
    for more in range(1, min(LOOK_AHEAD, limit - k) + 1):
        tokens = 1.0 + sum(drafted) + sum(last * survival**n for n in range(1, more + 1))
        cheapest = min(rule.costs.target_ns(n, 0) for n in range(k + more + 1, 66))
        worth.append(tokens - rule.rate * (cheapest + more * 0.1 * PLAIN))

    assert rule.best_lookahead(drafted, survival, limit) == pytest.approx(max(worth))
