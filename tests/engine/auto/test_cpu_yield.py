"""Fewer threads under other load, and the work clock; without a real clock or load."""

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
    """A machine with a scripted load of other programs."""

    def __init__(self, n_cpus: int) -> None:
        self.n_cpus = n_cpus
        self.now = 0.0
        self.others = 0.0
        self.applied: list[int] = []
        self.load_now = 0.0

    def cpu_yield(self, n_threads: int) -> CpuYield:
        return CpuYield(
            self.applied.append,
            n_threads,
            self.n_cpus,
            lambda: self.others,
            lambda: self.now,
            pause=lambda seconds: self.spend(seconds, self.load_now),
        )

    def spend(self, seconds: float, others: float) -> None:
        self.now += seconds
        self.others += seconds * others


def update_often(machine: Machine, chosen: CpuYield, n: int, others: float) -> int:
    for _ in range(n):
        machine.spend(SAMPLE_S, others)
        chosen.update()
    return chosen.n_threads


@pytest.mark.parametrize(
    ("n_cpus", "others", "left"),
    [
        (8, 0.3, 8),
        # A program that could use a whole CPU gets half of it, or two thirds, while the threads use all CPUs.
        (8, 0.5, 7),
        (8, 0.67, 7),
        (8, 1.0, 7),
        (8, 2.0, 6),
        (8, 8.0, 1),
        # Other programs use the idle CPUs first.
        (16, 6.0, 8),
        (16, 10.0, 6),
    ],
)
def test_threads_yield_to_other_programs_and_return_afterward(n_cpus: int, others: float, left: int) -> None:
    machine = Machine(n_cpus)
    chosen = machine.cpu_yield(8)
    assert update_often(machine, chosen, 5, others) == left
    assert machine.applied[:3] == ([4, 2, 1] if left == 1 else machine.applied[:3]), "half the difference each time"
    assert update_often(machine, chosen, 5, others=0.0) == 8
    assert machine.applied[-1:] == [8] * (left < 8)


def test_other_programs_are_noticed_within_a_step() -> None:
    machine = Machine(2)
    chosen = machine.cpu_yield(2)
    assert not chosen.is_contended()
    machine.spend(SAMPLE_S, 1.0)
    assert chosen.is_contended()
    assert chosen.n_threads == 2, "threads change only between steps"
    chosen.update()
    assert chosen.n_threads == 1
    machine.spend(SAMPLE_S, 0.0)
    assert chosen.is_contended(), "one thread computes instead of two"


def test_threads_that_the_user_set_are_kept() -> None:
    machine = Machine(4)
    fixed = CpuYield(machine.applied.append, 4, 4, lambda: machine.others, lambda: machine.now, least=4)
    assert update_often(machine, fixed, 4, others=4.0) == 4
    assert fixed.is_contended()


def test_two_programs_that_yield_to_each_other_do_not_oscillate() -> None:
    machines = Machine(8), Machine(8)
    both = [machine.cpu_yield(8) for machine in machines]
    for _ in range(10):
        in_use = [chosen.n_threads for chosen in both]
        for machine, chosen, other in zip(machines, both, reversed(in_use), strict=True):
            machine.spend(SAMPLE_S, min(other, 8 - chosen.n_threads / 2))
            chosen.update()
    settled = [len(machine.applied) for machine in machines]
    assert sum(chosen.n_threads for chosen in both) == 8
    for _ in range(5):
        for machine, chosen in zip(machines, both, strict=True):
            update_often(machine, chosen, 1, others=4.0)
    assert [len(machine.applied) for machine in machines] == settled


def test_samples_are_limited_in_rate() -> None:
    machine = Machine(4)
    chosen = machine.cpu_yield(4)
    machine.spend(SAMPLE_S / 2, 4.0)
    chosen.update()
    assert machine.applied == []


@pytest.mark.parametrize(("load_before", "load_now", "left"), [(4.0, 0.0, 4), (0.0, 4.0, 1)])
def test_after_a_pause_only_the_present_counts(load_before: float, load_now: float, left: int) -> None:
    machine = Machine(4)
    chosen = machine.cpu_yield(4)
    update_often(machine, chosen, 4, load_before)
    machine.spend(10.0, load_before)
    machine.load_now = load_now
    chosen.update()
    assert chosen.n_threads == left


def test_an_answer_yields_in_every_step() -> None:
    pair = FakePair(FakeModel(always(3)))
    request = AnswerRequest((Message(Role.USER, "hi"),), SamplingParams(), AutoDraft(), max_tokens=64)
    seen = [(type(event).__name__, pair.threads.n_yields) for event in answer(pair, 1, request)]
    steps = [n_yields for name, n_yields in seen if name == "Step"]
    assert len(steps) > 3
    assert dict(seen)["Finished"] >= len(steps)


def test_cpu_seconds_of_other_programs_are_readable() -> None:
    before = others_seconds()
    sum(i * i for i in range(200_000))
    assert others_seconds() > before - 1.0


@pytest.mark.parametrize(
    ("is_contended", "cpu", "worked"),
    [
        (False, 40, 100),
        # Two threads that each computed for 20 of 100.
        (True, 40, 20),
        # Other threads of this process use CPU time too, so the wall time is the limit.
        (True, 300, 100),
    ],
)
def test_a_step_counts_the_cpu_time_per_thread_while_others_compete(is_contended: bool, cpu: int, worked: int) -> None:
    wall, cpus, contended = iter((0, 100, 200)), iter((0, cpu, cpu + 100)), iter((is_contended, False))
    clock = WorkClock(lambda: next(wall), lambda: next(cpus), 2, lambda: next(contended))
    assert clock() == worked
    assert clock() == worked + 100, "the clock goes on when the load ends"
