"""Ratios without the machine's noise."""

from __future__ import annotations

import pytest

from tests.bench.steady import Race, StepTime, steady

_SINGLE = StepTime(1, 1, 100, 0)


def _race(prompt: str, *drafted: StepTime, speed: int = 1, reading_ns: int = 0) -> Race:
    """Return a race of three steps with no draft against drafted ones; `speed` multiplies the time of the former."""
    single = [StepTime(1, 1, 100 * speed, 0)] * 3
    return Race(prompt, {"plain": single, "auto": drafted}, {"plain": 0, "auto": reading_ns})


def test_a_step_counts_the_median_of_its_batch_size() -> None:
    usual, slow = StepTime(3, 3, 150, 0), StepTime(3, 3, 900, 0)
    ratios = steady([_race("a", usual), _race("b", slow), _race("c", usual)])
    assert ratios["a"]["auto"] == ratios["b"]["auto"] == ratios["c"]["auto"] == pytest.approx(2.0)


def test_a_slow_race_changes_no_ratio() -> None:
    ratios = steady([_race("a", StepTime(3, 2, 150, 0)), _race("b", StepTime(3, 2, 600, 0), speed=4)])
    assert ratios["a"]["auto"] == ratios["b"]["auto"] == pytest.approx(2.0)


def test_drafting_and_the_prompt_count_the_measured_time() -> None:
    ratios = steady([_race("a", StepTime(3, 2, 100, 30), _SINGLE, reading_ns=70)])
    assert ratios["a"]["auto"] == pytest.approx(4 / 3)


def test_several_races_of_a_prompt_give_their_median() -> None:
    two, one = StepTime(2, 2, 100, 0), StepTime(1, 2, 100, 0)
    assert steady([_race("a", two), _race("a", one), _race("a", two)])["a"]["auto"] == pytest.approx(2.0)


def test_the_ratio_of_no_draft_is_one() -> None:
    assert steady([_race("a", StepTime(3, 2, 150, 0))])["a"]["plain"] == pytest.approx(1.0)
