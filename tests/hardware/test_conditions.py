"""The state of the CPU: quota, clock, and other programs."""

from __future__ import annotations

import pytest

from app.hardware.conditions import Conditions, busy_cpus, busy_text, conditions
from tests.machines import FakeSystem


def read(files: dict[str, str]) -> Conditions:
    return conditions(FakeSystem(files=files))


def test_the_quota_of_a_container() -> None:
    cgroup = "/sys/fs/cgroup"
    found = read({f"{cgroup}/cpu.max": "150000 100000", f"{cgroup}/cpu.stat": "nr_periods 200\nnr_throttled 50\n"})

    assert (found.quota, found.throttled, found.clock_cap) == (1.5, 0.25, None)


def test_the_clock_of_the_slowest_cpu() -> None:
    files: dict[str, str] = {}
    for n, allowed in enumerate((3_000_000, 1_500_000)):
        folder = f"/sys/devices/system/cpu/cpu{n}/cpufreq"
        files |= {f"{folder}/scaling_max_freq": f"{allowed}\n", f"{folder}/cpuinfo_max_freq": "3000000\n"}

    found = read(files)

    assert (found.clock_cap, found.quota, found.throttled) == (0.5, None, None)


def test_other_programs_are_measured_under_load_only(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter((10.0, 11.2, 5.0, 4.9))
    monkeypatch.setattr("app.hardware.conditions.others_seconds", lambda: next(seconds))
    monkeypatch.setattr("time.sleep", lambda _: None)
    now = iter((0.0, 0.5, 1.0, 1.5))
    monkeypatch.setattr("time.monotonic", lambda: next(now))
    monkeypatch.setattr("os.getloadavg", lambda: (0.1, 3.0, 3.0), raising=False)
    assert busy_cpus(2) == 0

    monkeypatch.setattr("os.getloadavg", lambda: (3.0, 0.1, 0.1), raising=False)
    assert busy_cpus(2) == pytest.approx(2.4)
    assert busy_cpus(2) == 0, "counters that step differently make no negative load"
    monkeypatch.delattr("os.getloadavg", raising=False)
    assert busy_cpus(2) is None


def test_ordinary_use_has_no_text() -> None:
    assert busy_text("Other programs use", 0.5, 2) == ""
    assert busy_text("Other programs use", 1.5, 2) == "Other programs use 1.5 of 2 CPUs now"
