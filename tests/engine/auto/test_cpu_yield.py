"""Processors are left to other programs and taken back, without a clock or a load of its own."""

from __future__ import annotations

import pytest

from app.conversations.message import Message, Role
from app.engine.auto.threads import SAMPLE_S, CpuYield, WorkClock
from app.engine.types import AutoDraft, SamplingParams
from app.hardware.cpu import others_seconds
from app.worker.request import AnswerRequest
from app.worker.responder import answer
from tests.fakes import FakeModel, always
from tests.pairs import FakePair


class Machine:
    """Processors on which others want so much, and get what the threads leave them."""

    def __init__(self, n_processors: int) -> None:
        self.n_processors = n_processors
        self.now = 0.0
        self.ran = 0.0
        self.told: list[int] = []

    def cpu_yield(self, n_threads: int) -> CpuYield:
        return CpuYield(self.told.append, n_threads, self.n_processors, lambda: self.ran, lambda: self.now)

    def spend(self, seconds: float, others: float) -> None:
        self.now += seconds
        self.ran += seconds * others


def looks(machine: Machine, chosen: CpuYield, n: int, others: float) -> int:
    for _ in range(n):
        machine.spend(SAMPLE_S, others)
        chosen.update()
    return chosen.n_threads


def test_a_machine_to_itself_keeps_every_thread() -> None:
    machine = Machine(8)
    assert looks(machine, machine.cpu_yield(8), 20, others=0.3) == 8
    assert machine.told == []


@pytest.mark.parametrize(
    ("others", "left"),
    # A program that wants a whole processor gets half of one, or two thirds, while the threads are on all of them.
    [(0.5, 7), (0.67, 7), (1.0, 7), (2.0, 6), (8.0, 1)],
)
def test_what_others_take_is_left_to_them_and_taken_back(others: float, left: int) -> None:
    machine = Machine(8)
    chosen = machine.cpu_yield(8)
    assert looks(machine, chosen, 4, others) == left
    assert looks(machine, chosen, 4, others=0.0) == 8
    assert machine.told[-1] == 8


def test_other_programs_are_noticed_within_the_step_that_they_slow_down() -> None:
    machine = Machine(2)
    chosen = machine.cpu_yield(2)
    assert not chosen.is_contended()
    machine.spend(SAMPLE_S, 1.0)
    assert chosen.is_contended()
    assert chosen.n_threads == 2, "threads change between steps only"
    chosen.update()
    assert chosen.n_threads == 1
    machine.spend(SAMPLE_S, 0.0)
    assert chosen.is_contended(), "one thread computes where two did"


def test_threads_that_the_user_set_are_kept() -> None:
    machine = Machine(4)
    kept = CpuYield(machine.told.append, 4, 4, lambda: machine.ran, lambda: machine.now, least=4)
    assert looks(machine, kept, 4, others=4.0) == 4
    assert kept.is_contended()


def test_half_the_way_is_gone_at_a_time() -> None:
    machine = Machine(8)
    looks(machine, machine.cpu_yield(8), 4, others=8.0)
    assert machine.told == [4, 2, 1]


def test_hardware_threads_that_nobody_computes_on_serve_the_others_first() -> None:
    machine = Machine(16)
    assert looks(machine, machine.cpu_yield(8), 5, others=6.0) == 8
    assert looks(machine, machine.cpu_yield(8), 5, others=10.0) == 6


def test_two_that_give_way_to_each_other_come_to_rest() -> None:
    machines = Machine(8), Machine(8)
    both = [machine.cpu_yield(8) for machine in machines]
    for _ in range(10):
        taken = [chosen.n_threads for chosen in both]
        for machine, chosen, other in zip(machines, both, reversed(taken), strict=True):
            machine.spend(SAMPLE_S, min(other, 8 - chosen.n_threads / 2))
            chosen.update()
    settled = [len(machine.told) for machine in machines]
    assert sum(chosen.n_threads for chosen in both) == 8
    for _ in range(5):
        for machine, chosen in zip(machines, both, strict=True):
            looks(machine, chosen, 1, others=4.0)
    assert [len(machine.told) for machine in machines] == settled


def test_it_looks_twice_a_second_at_most_and_forgets_what_was_long_ago() -> None:
    machine = Machine(4)
    chosen = machine.cpu_yield(4)
    machine.spend(SAMPLE_S / 2, 4.0)
    chosen.update()
    assert machine.told == []
    machine.spend(600.0, 4.0)
    chosen.update()
    assert machine.told == [], "ten minutes of a build that is over"


def test_an_answer_gives_way_before_it_measures_and_in_every_round() -> None:
    pair = FakePair(FakeModel(always(3)))
    request = AnswerRequest((Message(Role.USER, "hi"),), SamplingParams(), AutoDraft(), max_tokens=64)
    seen = [(type(event).__name__, pair.n_yields) for event in answer(pair, 1, request)]
    assert dict(seen)["Measuring"] == 1
    rounds = [n_yields for name, n_yields in seen if name == "Step"]
    assert len(rounds) > 3
    assert dict(seen)["Finished"] >= len(rounds)


def test_this_machine_can_be_asked() -> None:
    before = others_seconds()
    sum(i * i for i in range(200_000))
    assert others_seconds() > before - 1.0


class FakeClocks:
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
    machine = FakeClocks()
    clock = machine.clock(2)
    machine.contended = contended
    machine.spend(100, cpu)
    assert clock() == worked


def test_the_clock_goes_on_across_loads() -> None:
    machine = FakeClocks()
    clock = machine.clock(1)
    machine.spend(100, 100)
    assert clock() == 100
    machine.contended = True
    machine.spend(1000, 100)
    assert clock() == 200
    machine.contended = False
    machine.spend(100, 100)
    assert clock() == 300
