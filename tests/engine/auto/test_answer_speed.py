"""Speedup and verdict of a running answer, and stalls of the machine."""

from collections.abc import Sequence

import pytest

from app.engine.auto.answer_speed import AnswerSpeed
from app.engine.drafting_report import Speedup
from app.engine.interfaces import StepResult
from app.engine.sources import Source
from app.engine.types import NO_DRAFT, Draft

Step = tuple[int, float, float, bool]
"""Tokens, cost in milliseconds, stretch of the work clock, and whether the step had a draft."""


def single(cost: float = 1.0, stretch: float = 1.0) -> Step:
    return 1, cost, stretch, False


def drafted(tokens: int, cost: float, stretch: float = 1.0) -> Step:
    return tokens, cost, stretch, True


def result(tokens: int, ns: float, stretch: float = 1.0, *, is_drafted: bool) -> StepResult:
    draft = Draft.of(Source.MODEL, (1,), (0.9,)) if is_drafted else NO_DRAFT
    return StepResult(0, draft, (0,) * tokens, 0, round(ns), 0, stretch)


def after(steps: Sequence[Step]) -> AnswerSpeed:
    speed = AnswerSpeed()
    for tokens, cost, stretch, is_drafted in steps:
        step = result(tokens, cost * 1e6, stretch, is_drafted=is_drafted)
        speed.observe(step, 0.0, cost * 1e6, 1e6, 1e6, drafted=is_drafted)
    return speed


def changing(*stretches: float) -> list[Step]:
    return [step for stretch in stretches for step in [single(1.0, stretch), drafted(4, 2.0, stretch)] * 4]


@pytest.mark.parametrize(
    ("steps", "speedup", "measured", "verdict"),
    [
        pytest.param([drafted(1, 1.5)] * 8, 1 / 1.5, False, "", id="drafts alone give an estimate"),
        pytest.param([single()] * 20, None, True, "", id="no drafts, no speedup"),
        pytest.param(
            [drafted(4, 2.0), single(0.6)] * 20, 1.19, True, "winning", id="fast single tokens, 1.15 in truth"
        ),
        pytest.param(
            [drafted(4, 2.0), single(1.5)] * 20, 2.11, True, "winning", id="slow single tokens, 2.14 in truth"
        ),
        pytest.param(changing(1.0, 3.0), 1.67, False, "", id="the load begins in the answer"),
        pytest.param(changing(2.0, 1.0), 1.67, False, "", id="the load ends in the answer"),
        pytest.param(changing(1.0, 2.0, 1.0), 1.67, False, "", id="a load for a part of the answer"),
        pytest.param([single(1.0, 2.0), drafted(4, 2.0, 2.2)] * 8, 1.67, True, "winning", id="a steady load"),
        pytest.param([single()] * 4 + [drafted(4, 3.5)] * 8, 1.125, True, "winning", id="steady single tokens"),
        pytest.param([single(0.6), single(1.4)] * 2 + [drafted(4, 3.5)] * 8, 1.125, True, "", id="within the noise"),
    ],
)
def test_a_speedup_is_measured_against_the_single_tokens_of_the_answer(
    steps: list[Step], speedup: float | None, measured: bool, verdict: str
) -> None:
    gain = after(steps).speedup or Speedup(0.0, True)
    assert gain.ratio == pytest.approx(speedup or 0.0, rel=0.01)
    assert (gain.measured, gain.verdict) == (measured, verdict)


def test_a_speedup_is_not_measured_long_after_the_last_single_token() -> None:
    for n_drafted, is_recent in ((1, True), (159, True), (160, False)):
        gain = after([single()] * 8 + [drafted(5, 1.3)] * n_drafted).speedup
        assert gain is not None
        assert gain.measured is is_recent


@pytest.mark.parametrize(
    ("steps", "counted", "is_stalled"),
    [
        pytest.param([(150, True)], 150, False, id="a usual step"),
        pytest.param([(2000, True)], 200, True, id="a stalled draft counts twice the expected time"),
        pytest.param([(2000, True), (90, False)], 90, False, id="a usual single token ends the stall"),
        pytest.param([(2000, True), (900, False)], 200, True, id="a stalled single token"),
        pytest.param([(900, False)], 200, False, id="a stall without a draft"),
    ],
)
def test_stalled_time_does_not_count_for_a_draft(steps: list[tuple[int, bool]], counted: int, is_stalled: bool) -> None:
    speed = AnswerSpeed()
    for ns, is_drafted in steps:
        step = result(1, ns + 30, is_drafted=is_drafted)
        found = speed.observe(step, 30.0, 100.0, 100.0, 100.0, drafted=is_drafted)

    assert (found, speed.is_stalled) == (counted, is_stalled)


@pytest.mark.parametrize(
    ("last_ns", "reading_ns", "ratio"),
    [
        pytest.param(2, 0, (8 + 16) / (8 + 8), id="usual"),
        # 16 of 20 were lost with or without a draft.
        pytest.param(20, 0, (8 + 16 + 16) / (8 + 6 + 20), id="stalled"),
        pytest.param(12, 10, (8 + 16) / (8 + 6 + 12), id="reading"),
    ],
)
def test_stalls_and_reading_count_in_the_speedup(last_ns: int, reading_ns: int, ratio: float) -> None:
    speed = after([single()] * 8 + [drafted(4, 2.0)] * 3)
    speed.observe(result(4, last_ns * 1e6, is_drafted=True), reading_ns * 1e6, 2e6, 1e6, 1e6, drafted=True)

    assert speed.speedup is not None
    assert speed.speedup.ratio == pytest.approx(ratio)
