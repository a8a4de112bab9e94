"""Interpolation of measured costs."""

from __future__ import annotations

import pytest

from app.engine.auto.cost_profile import envelope, expand


def test_costs_between_measured_sizes_are_interpolated() -> None:
    costs = expand({1: 22.0, 2: 36.0, 3: 53.0, 4: 34.0, 8: 63.0}, 12)

    assert [costs[n] for n in (1, 2, 3, 4, 8)] == [22, 36, 53, 34, 63]
    assert costs[6] == pytest.approx((34 + 63) / 2)
    assert costs[12] == pytest.approx(63 + 4 * (63 - 22) / 7)


def test_one_measured_size_is_enough() -> None:
    assert expand({1: 10.0}, 3) == [0.0, 10.0, 20.0, 30.0]


def test_the_envelope_is_the_cheapest_batch_of_at_least_each_size() -> None:
    assert envelope([0.0, 5.0, 9.0, 6.0, 4.0, 7.0])[1:] == [4.0, 4.0, 4.0, 4.0, 7.0]
