"""Speedup and verdict of a running answer, and stalls of the machine."""

import pytest

from app.engine.auto.answer_speed import AnswerSpeed, Stalls, StepTime


def single(speed: AnswerSpeed, cost: float = 1.0, stretch: float = 1.0) -> None:
    speed.observe(1, StepTime(cost * 1e6), 1e6, 1e6, drafted=False, single_ns=cost * 1e6, stretch=stretch)


def drafted(speed: AnswerSpeed, tokens: int, cost: float, stretch: float = 1.0) -> None:
    speed.observe(tokens, StepTime(cost * 1e6), 1e6, 1e6, drafted=True, single_ns=None, stretch=stretch)


def test_without_single_token_steps_the_speedup_is_an_estimate_without_a_verdict() -> None:
    speed = AnswerSpeed()
    for _ in range(8):
        drafted(speed, 1, 1.5)
    assert speed.speedup == pytest.approx(1 / 1.5)
    assert (speed.measured, speed.verdict) == (False, "")


def test_a_speedup_is_not_measured_long_after_the_last_single_token() -> None:
    speed = AnswerSpeed()
    for _ in range(8):
        single(speed)
    assert speed.measured
    for _ in range(160):
        drafted(speed, 5, 1.3)
    assert not speed.measured


@pytest.mark.parametrize("actual", [0.6, 1.5])
def test_the_speedup_is_corrected_by_the_single_token_steps_of_this_answer(actual: float) -> None:
    speed = AnswerSpeed()
    for _ in range(20):
        drafted(speed, 4, 2.0)
        single(speed, actual)
    assert speed.speedup == pytest.approx(5 * actual / (2.0 + actual), rel=0.05)


def test_an_answer_without_drafts_has_no_speedup() -> None:
    speed = AnswerSpeed()
    for _ in range(20):
        single(speed)
    assert (speed.speedup, speed.verdict) == (None, "")


@pytest.mark.parametrize("stretches", [(1.0, 3.0), (2.0, 1.0), (1.0, 2.0, 1.0)])
def test_a_speedup_is_estimated_if_the_load_changed_in_the_answer(stretches: tuple[float, ...]) -> None:
    speed = AnswerSpeed()
    for stretch in stretches:
        for _ in range(4):
            single(speed, stretch=stretch)
            drafted(speed, 4, 2.0, stretch)
    assert speed.speedup == pytest.approx(1.67, abs=0.01)
    assert (speed.measured, speed.verdict) == (False, "")


def test_a_speedup_under_a_steady_load_is_measured() -> None:
    speed = AnswerSpeed()
    for _ in range(8):
        single(speed, stretch=2.0)
        drafted(speed, 4, 2.0, 2.2)
    assert (speed.measured, speed.verdict) == (True, "winning")


@pytest.mark.parametrize(("singles", "verdict"), [((1.0, 1.0), "winning"), ((0.6, 1.4), "")], ids=["steady", "noisy"])
def test_a_speedup_within_the_noise_of_the_single_token_steps_has_no_verdict(
    singles: tuple[float, float], verdict: str
) -> None:
    speed = AnswerSpeed()
    for took in singles * 2:
        single(speed, took)
    for _ in range(8):
        drafted(speed, 4, 3.5)
    assert speed.speedup == pytest.approx(1.125, abs=0.01)
    assert (speed.measured, speed.verdict) == (True, verdict)


class TestStalls:
    def test_a_usual_step_counts_as_measured(self) -> None:
        stalls = Stalls()

        assert stalls.split(150.0, 0.0, 100.0, drafted=True).counted_ns == 150.0
        assert not stalls.waiting

    def test_a_stalled_draft_counts_twice_the_expected_time_and_a_single_token_follows(self) -> None:
        stalls = Stalls()

        assert stalls.split(2000.0, 0.0, 100.0, drafted=True).counted_ns == 200.0
        assert stalls.waiting
        stalls.split(90.0, 0.0, 100.0, drafted=False)
        assert not stalls.waiting

    def test_single_tokens_continue_while_they_are_stalled_themselves(self) -> None:
        stalls = Stalls()
        stalls.split(2000.0, 0.0, 100.0, drafted=True)

        assert stalls.split(900.0, 0.0, 100.0, drafted=False).counted_ns == 200.0
        assert stalls.waiting

    def test_two_slow_drafts_with_a_fast_single_token_between_both_count(self) -> None:
        slow, recovered = Stalls(), Stalls()
        for stalls in (slow, recovered):
            stalls.split(2000.0, 0.0, 100.0, drafted=True)
            stalls.split(100.0, 0.0, 100.0, drafted=False)

        assert slow.split(1900.0, 0.0, 100.0, drafted=True).counted_ns == 1900.0 + 1800.0
        assert recovered.split(110.0, 0.0, 100.0, drafted=True).counted_ns == 110.0
        assert recovered.split(2000.0, 0.0, 100.0, drafted=True).counted_ns == 200.0

    def test_the_parts_of_all_steps_add_up_to_the_total_time(self) -> None:
        stalls = Stalls()
        steps = [(2000.0, True), (100.0, False), (1900.0, True), (900.0, False), (5000.0, True), (130.0, True)]
        times = [stalls.split(total, 30.0, 100.0, drafted=drafted) for total, drafted in steps]

        assert {time.reading_ns for time in times} == {30.0}
        parts = sum(time.counted_ns + time.stalled_ns + time.reading_ns for time in times)
        assert parts == sum(total for total, _ in steps)
