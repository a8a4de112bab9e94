"""The speed of reading weights is measured once, and later measurements do not make it waver."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.llama.fitting.speed import weights_per_second
from app.llama.probe import Device, Throughput

CARD = Device("Vulkan0", "Beads", "igpu", "Vulkan", 8 << 30, 4 << 30)
DAY = 86_400.0


class Machine:
    """One that is measured to be as fast as a test says, at the time that it says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.found: Throughput | None = Throughput(10e9)
        self.now = 1e9
        self.measured = 0

    def look(self, build: str = "abc", n_threads: int = 4) -> float | None:
        clock = lambda: self.now  # noqa: E731
        found = weights_per_second(
            build, "An abacus", [CARD], n_threads, self.folder, measure=self._measure, clock=clock
        )
        return found.bytes_per_s if found is not None else None

    def _measure(self, n_threads: int) -> Throughput | None:
        self.measured += 1
        return self.found


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "drafting")


def test_two_looks_agree(machine: Machine) -> None:
    assert machine.look() == 10e9
    machine.found, machine.now = Throughput(5e9), machine.now + 10 * DAY
    assert machine.look() == 10e9
    assert machine.measured == 1


def test_another_build_or_number_of_threads_is_another_machine(machine: Machine) -> None:
    machine.look()
    machine.found = Throughput(20e9)
    assert machine.look(n_threads=8) == 20e9
    assert machine.look("other") == 20e9
    assert machine.look() == 10e9


def test_what_was_measured_beside_others_work_is_measured_again_soon(machine: Machine) -> None:
    machine.found = Throughput(4e9, alone=False)
    assert machine.look() == 4e9
    machine.found, machine.now = Throughput(10e9), machine.now + 60
    assert machine.look() == 4e9, "not within one sitting"
    machine.now += DAY
    assert machine.look() == 10e9
    machine.now += 10 * DAY
    machine.look()
    assert machine.measured == 2


@pytest.mark.parametrize(
    ("again", "believed"),
    [
        (Throughput(9.2e9), 10e9),
        (Throughput(11e9), 10e9),
        (Throughput(6e9), 6e9),
        (Throughput(14e9), 14e9),
        # Others' work makes it slower, never faster.
        (Throughput(6e9, alone=False), 10e9),
        (Throughput(14e9, alone=False), 14e9),
        (None, 10e9),
    ],
)
def test_an_old_one_is_replaced_by_what_differs_for_a_reason(
    machine: Machine, again: Throughput | None, believed: float
) -> None:
    machine.look()
    machine.found, machine.now = again, machine.now + 40 * DAY
    assert machine.look() == believed


def test_what_cannot_be_measured_is_not_known(machine: Machine) -> None:
    machine.found = None
    assert machine.look() is None


def test_a_damaged_file_and_a_clock_that_was_set_back_cost_a_measurement(machine: Machine) -> None:
    machine.look()
    (file,) = (machine.folder / "throughput").iterdir()
    for damage in ("", "[]", '{"format": 1, "bytes_per_s": 0, "alone": true, "at": 1}', '{"format": 2}'):
        file.write_text(damage, encoding="utf-8")
        assert machine.look() == 10e9
    machine.now -= DAY
    machine.look()
    assert machine.measured == 6


def test_a_disk_that_refuses_stops_nothing(machine: Machine) -> None:
    machine.folder.parent.mkdir(exist_ok=True)
    machine.folder.write_text("a file where the folder should be", encoding="utf-8")
    assert machine.look() == 10e9
