"""Speedup and verdict of a running answer, and stalls of the machine."""

from collections.abc import Sequence

import pytest

from app.engine.auto.answer_speed import AnswerSpeed, StepTime
from app.engine.drafting_report import Speedup

Step = tuple[int, float, float, bool]
"""Tokens, cost in milliseconds, stretch of the work clock, and whether the step had a draft."""


def single(cost: float = 1.0, stretch: float = 1.0) -> Step:
    return 1, cost, stretch, False


def drafted(tokens: int, cost: float, stretch: float = 1.0) -> Step:
    return tokens, cost, stretch, True


def after(steps: Sequence[Step]) -> AnswerSpeed:
    speed = AnswerSpeed()
    for tokens, cost, stretch, is_drafted in steps:
        single_ns = None if is_drafted else cost * 1e6
        speed.observe(tokens, StepTime(cost * 1e6), 1e6, 1e6, drafted=is_drafted, single_ns=single_ns, stretch=stretch)
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


class TestStalls:
    def test_a_usual_step_counts_as_measured(self) -> None:
        speed = AnswerSpeed()

        assert speed.split(150.0, 0.0, 100.0, drafted=True).counted_ns == 150.0
        assert not speed.is_stalled

    def test_a_stalled_draft_counts_twice_the_expected_time_and_a_single_token_follows(self) -> None:
        speed = AnswerSpeed()

        assert speed.split(2000.0, 0.0, 100.0, drafted=True).counted_ns == 200.0
        assert speed.is_stalled
        speed.split(90.0, 0.0, 100.0, drafted=False)
        assert not speed.is_stalled

    def test_single_tokens_continue_while_they_are_stalled_themselves(self) -> None:
        speed = AnswerSpeed()
        speed.split(2000.0, 0.0, 100.0, drafted=True)

        assert speed.split(900.0, 0.0, 100.0, drafted=False).counted_ns == 200.0
        assert speed.is_stalled

    def test_the_parts_of_all_steps_add_up_to_the_total_time(self) -> None:
        speed = AnswerSpeed()
        steps = [(2000.0, True), (100.0, False), (1900.0, True), (900.0, False), (5000.0, True), (130.0, True)]
        times = [speed.split(total, 30.0, 100.0, drafted=drafted) for total, drafted in steps]

        assert {time.reading_ns for time in times} == {30.0}
        parts = sum(time.counted_ns + time.stalled_ns + time.reading_ns for time in times)
        assert parts == sum(total for total, _ in steps)
