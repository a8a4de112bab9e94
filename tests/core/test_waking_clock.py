"""Time in which the process ran."""

from __future__ import annotations

from threading import enumerate as threads

from app.core.waking_clock import WakingClock

SECOND = 1_000_000_000


class Time:
    def __init__(self) -> None:
        self.now = 5 * SECOND

    def __call__(self) -> int:
        return self.now


def test_what_no_one_saw_pass_is_not_counted() -> None:
    time = Time()
    clock = WakingClock(time)
    started = clock()

    time.now += SECOND
    assert clock() - started == SECOND, "a slow step"
    time.now += 600 * SECOND
    assert clock() - started == SECOND, "the machine slept"
    time.now += SECOND
    assert clock() - started == 2 * SECOND


def test_a_long_call_counts_because_another_thread_looks_meanwhile() -> None:
    time = Time()
    clock = WakingClock(time)
    started = clock()

    for _ in range(40):
        time.now += SECOND // 4
        clock()  # the looker's turn

    assert clock() - started == 10 * SECOND


def test_the_looker_lives_as_long_as_it_is_wanted() -> None:
    with WakingClock():
        assert "clock" in [thread.name for thread in threads()]
    assert "clock" not in [thread.name for thread in threads()]
