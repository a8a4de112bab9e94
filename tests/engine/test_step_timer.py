"""The clocks of an answer: what a pause leaves out, and what belongs to a step or to its draft."""

from __future__ import annotations

import pytest

from app.engine.stats import GenerationStats
from app.engine.step_timer import StepTimer


class Machine:
    """A wall clock, a work clock at half its speed, and a count of native time."""

    def __init__(self) -> None:
        self.now = self.native = 0
        self.timer = StepTimer(lambda: self.now, lambda: self.now // 2, lambda: self.native)

    def spend(self, ns: int, *, native: int = 0) -> None:
        self.now += ns
        self.native += native

    @property
    def counted(self) -> GenerationStats:
        stats = GenerationStats()
        self.timer.count(stats)
        return stats


def test_a_step_and_its_draft_are_timed_by_both_clocks() -> None:
    machine = Machine()
    machine.spend(100)
    machine.timer.begin_draft()
    machine.spend(40, native=30)
    machine.timer.end_draft()
    machine.spend(60, native=50)
    machine.timer.end_step()
    timer, stats = machine.timer, machine.counted

    assert (timer.wall_ns, timer.work_ns, timer.draft_work_ns, timer.stretch) == (200, 100, 20, 2.0)
    assert (stats.draft_ns, stats.predicted_ns, stats.native_ns, stats.overhead_ns) == (40, 200, 80, 120)


@pytest.mark.parametrize(("left_out_ns", "predicted_ns"), [(None, 300), (1000, 2300), (3000, 300)])
def test_a_pause_is_part_of_no_step_and_of_the_answer_as_far_as_it_counts(
    left_out_ns: int | None, predicted_ns: int
) -> None:
    machine = Machine()
    machine.spend(100)
    machine.timer.pause()
    machine.spend(3000, native=2000)
    machine.timer.resume(left_out_ns)
    machine.spend(200)
    machine.timer.end_step()

    assert (machine.timer.wall_ns, machine.timer.work_ns) == (300, 150)
    assert (machine.counted.predicted_ns, machine.counted.native_ns) == (predicted_ns, 0)
