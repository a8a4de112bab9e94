"""When a single token is taken to learn what it costs, and what is learned from it."""

from __future__ import annotations

import pytest

from app.engine.auto.curve import CostModel, CostProfile
from app.engine.auto.pair_statistics import PairStatistics
from app.engine.auto.single_token_check import SingleTokenCheck


def steps_until_due(check: SingleTokenCheck) -> int:
    for n in range(1000):
        if check.is_due:
            return n
        check.waited += 1
    raise AssertionError("never due")


def test_the_first_check_comes_soon_and_later_ones_rarely() -> None:
    check = SingleTokenCheck()

    assert steps_until_due(check) == SingleTokenCheck.SOON
    assert check.observe(1.0, 1.0) == 1.0
    assert steps_until_due(check) == SingleTokenCheck.EVERY


def test_half_of_a_surprise_corrects_the_cost() -> None:
    check = SingleTokenCheck(waited=SingleTokenCheck.EVERY)

    assert check.observe(4.0, 1.0) == pytest.approx(2.0)


def test_a_single_token_that_was_not_a_check_corrects_nothing_but_postpones_the_next() -> None:
    check = SingleTokenCheck(waited=SingleTokenCheck.EVERY - 1)

    assert check.observe(4.0, 1.0) == 1.0
    assert steps_until_due(check) == SingleTokenCheck.EVERY


def test_a_check_moves_the_single_token_and_no_other_batch() -> None:
    statistics = PairStatistics(CostModel(CostProfile({1: 100.0, 4: 150.0})))
    statistics.single_token_check.waited = SingleTokenCheck.EVERY
    statistics.observe_batch(1, 0, 144.0)

    assert statistics.costs.target_ns(1, 0) == pytest.approx(120.0)
    assert statistics.costs.target_ns(4, 0) == pytest.approx(150.0)


def test_over_a_long_context_a_check_corrects_nothing() -> None:
    statistics = PairStatistics(CostModel(CostProfile({1: 100.0, 4: 150.0}, cells={1: 1.0, 8: 8.0, 64: 64.0})))
    statistics.single_token_check.waited = SingleTokenCheck.EVERY
    before = statistics.costs.profile.rows[1]
    statistics.observe_batch(1, 1000, 1100.0)

    assert statistics.costs.profile.rows[1] == pytest.approx(before, rel=0.05)
