"""Speedup and verdict of an answer while it is written."""

from __future__ import annotations

import pytest

from app.engine.auto.answer_speed import AnswerSpeed, StepTime


def single(pace: AnswerSpeed, took: float = 1.0, stretch: float = 1.0) -> None:
    pace.observe(1, StepTime(took * 1e6), 1e6, 1e6, drafted=False, single_ns=took * 1e6, stretch=stretch)


def drafted(pace: AnswerSpeed, tokens: int, took: float, stretch: float = 1.0) -> None:
    pace.observe(tokens, StepTime(took * 1e6), 1e6, 1e6, drafted=True, single_ns=None, stretch=stretch)


def test_without_single_token_steps_the_speedup_is_an_estimate_and_no_verdict() -> None:
    pace = AnswerSpeed()
    for _ in range(8):
        drafted(pace, 1, 1.5)
    assert pace.speedup == pytest.approx(1 / 1.5)
    assert (pace.measured, pace.verdict) == (False, "")


def test_single_token_steps_of_long_ago_do_not_count_as_measured() -> None:
    pace = AnswerSpeed()
    for _ in range(4):
        single(pace)
    assert pace.measured
    for _ in range(160):
        drafted(pace, 5, 1.3)
    assert not pace.measured


@pytest.mark.parametrize("actual", [0.6, 1.5])
def test_the_speedup_is_corrected_by_the_single_token_steps_of_this_answer(actual: float) -> None:
    pace = AnswerSpeed()
    for _ in range(20):
        drafted(pace, 4, 2.0)
        single(pace, actual)
    assert pace.speedup == pytest.approx(5 * actual / (2.0 + actual), rel=0.05)


def test_nothing_is_said_where_nothing_was_drafted() -> None:
    pace = AnswerSpeed()
    for _ in range(20):
        single(pace)
    assert (pace.speedup, pace.verdict) == (None, "")


@pytest.mark.parametrize(("single_stretch", "drafted_stretch"), [(1.0, 3.0), (2.0, 1.0)])
def test_a_speedup_is_estimated_if_the_load_changed_between_single_tokens_and_drafts(
    single_stretch: float, drafted_stretch: float
) -> None:
    speed = AnswerSpeed()
    for _ in range(8):
        single(speed, stretch=single_stretch)
    for _ in range(8):
        drafted(speed, 4, 2.0, drafted_stretch)
    assert speed.speedup == pytest.approx(1.67, abs=0.01)
    assert (speed.measured, speed.verdict) == (False, "")


def test_a_speedup_under_a_steady_load_is_measured() -> None:
    speed = AnswerSpeed()
    for _ in range(8):
        single(speed, stretch=2.0)
        drafted(speed, 4, 2.0, 2.2)
    assert (speed.measured, speed.verdict) == (True, "winning")
