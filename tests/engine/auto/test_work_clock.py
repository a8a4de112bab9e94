"""The clock of costs counts CPU time while other programs compete, and wall time else."""

from __future__ import annotations

import pytest

from app.engine.auto.work_clock import WorkClock


class Machine:
    """Wall time, CPU time of this process, and whether other programs compete."""

    def __init__(self) -> None:
        self.wall = self.cpu = 0
        self.contended = False

    def clock(self, n_threads: int) -> WorkClock:
        return WorkClock(lambda: self.wall, lambda: self.cpu, n_threads, lambda: self.contended)

    def spend(self, wall: int, cpu: int) -> None:
        self.wall += wall
        self.cpu += cpu


@pytest.mark.parametrize(
    ("contended", "cpu", "worked"),
    [
        (False, 40, 100),
        # Two threads that computed for 20 of 100 each.
        (True, 40, 20),
        # Other threads of this process compute, too; nothing takes longer than the wall time.
        (True, 300, 100),
    ],
)
def test_a_step_is_worth_the_cpu_time_of_a_thread_while_others_compete(contended: bool, cpu: int, worked: int) -> None:
    machine = Machine()
    clock = machine.clock(2)
    machine.contended = contended
    machine.spend(100, cpu)
    assert clock() == worked


def test_the_clock_goes_on_across_loads() -> None:
    machine = Machine()
    clock = machine.clock(1)
    machine.spend(100, 100)
    assert clock() == 100
    machine.contended = True
    machine.spend(1000, 100)
    assert clock() == 200
    machine.contended = False
    machine.spend(100, 100)
    assert clock() == 300
