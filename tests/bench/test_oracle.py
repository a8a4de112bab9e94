"""The bound that races are held against."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.compare.upper_bound import Trace
from tests.bench.oracle import Followed, oracles
from tests.bench.steady import Race, StepTime

_TRACE = Trace("", "", (1, 2, 3), (4, 5, 6, 7, 8), (4, 0, 2, 1), ((0.9,) * 4,) * 4)
_ANSWER = Followed("code 1", _TRACE, draft=0.1, reading=0.6)


def _race(*fixed: StepTime, speed: int = 1) -> Race:
    """Decoding without drafts and automatic drafting that stays off, against a fixed setting."""
    plain = [StepTime(1, 1, 100 * speed, 0)] * 4
    return Race("code 1", {"plain": plain, "auto": plain, "fixed": fixed}, {"plain": 0, "auto": 0, "fixed": 0})


def test_a_width_costs_what_it_took_whoever_ran_it() -> None:
    bounds = oracles([_ANSWER], [_race(*[StepTime(4, 4, 130, 30)] * 3)])["code 1"]

    # Four plain steps against three drafted tokens and a batch of four rows.
    assert bounds["oracle"] == pytest.approx(4 / (3 * 0.1 + 1.3))
    assert bounds["reading oracle"] == pytest.approx(4 / (3 * 0.1 + 1.3 + 0.6))


def test_nobody_reads_at_a_loss() -> None:
    bounds = oracles([replace(_ANSWER, reading=9.0)], [_race(*[StepTime(4, 4, 130, 30)] * 3)])["code 1"]
    assert bounds["reading oracle"] == 1.0 < bounds["oracle"]


def test_one_lucky_round_is_not_what_a_width_costs() -> None:
    usual = [StepTime(4, 4, 130, 30)] * 3
    assert oracles([_ANSWER], [_race(*usual, StepTime(3, 3, 1, 20))]) == oracles([_ANSWER], [_race(*usual)])


def test_a_slow_machine_is_slow_for_plain_steps_too() -> None:
    usual = [StepTime(4, 4, 130, 30)] * 3
    slow = [StepTime(4, 4, 390, 90)] * 3
    assert oracles([_ANSWER], [_race(*usual), _race(*slow, speed=3)]) == oracles([_ANSWER], [_race(*usual)])


def test_several_answers_of_a_prompt_count_with_their_median() -> None:
    races = [_race(*[StepTime(4, 4, 130, 30)] * 3)]
    dear = replace(_ANSWER, draft=9.0)
    assert oracles([_ANSWER, dear, _ANSWER], races) == oracles([_ANSWER], races)
