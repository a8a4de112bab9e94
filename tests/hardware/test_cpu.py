"""The CPU model, quota, clock, numbers of threads, and other programs."""

import os
import platform
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from app.hardware import cpu
from app.hardware.cpu import (
    busy_cpus,
    busy_text,
    conditions,
    default_threads,
    others_seconds,
    processor_kind,
    sysctl,
    thread_candidates,
)

X86 = "processor\t: {}\nmodel\t\t: 68\nmodel name\t: Some {} 9\nstepping\t: 0\ncpu MHz\t\t: 24{}0.1\nflags\t\t: fpu\n\n"
ARM = "processor\t: {}\nCPU implementer\t: 0x41\nCPU part\t: {}\n\n"
SIBLINGS = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
CGROUP = "/sys/fs/cgroup"
Give = Callable[..., Callable[[str], str]]


@pytest.fixture(autouse=True)
def no_cache() -> Iterator[None]:
    for cached in (processor_kind, sysctl):
        cached.cache_clear()
    yield
    for cached in (processor_kind, sysctl):
        cached.cache_clear()


# The model


@pytest.fixture
def linux_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Return a function that returns the kind for a text of /proc/cpuinfo."""
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(cpu, "CPUINFO", tmp_path / "cpuinfo")

    def kind(text: str) -> str:
        (tmp_path / "cpuinfo").write_text(text)
        processor_kind.cache_clear()
        return processor_kind()

    return kind


def test_the_kind_depends_on_the_models_but_not_on_clock_or_order(linux_kind: Callable[[str], str]) -> None:
    one = linux_kind(X86.format(0, "Ryzen", 1) + X86.format(1, "Ryzen", 2))
    assert one == linux_kind(X86.format(0, "Ryzen", 7)) == "model 68, model name Some Ryzen 9, stepping 0"
    assert one != linux_kind(X86.format(0, "Threadripper", 1))

    hybrid = linux_kind(ARM.format(0, "0xd05") + ARM.format(1, "0xd0a"))
    assert hybrid == linux_kind(ARM.format(0, "0xd0a") + ARM.format(1, "0xd05"))
    assert hybrid != linux_kind(ARM.format(0, "0xd0a"))


def test_an_unknown_model_is_known_by_its_architecture(
    linux_kind: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert linux_kind("") == platform.machine()
    monkeypatch.setattr(cpu, "CPUINFO", Path("/no/such/file"))
    processor_kind.cache_clear()
    assert processor_kind() == platform.machine()


def test_macos_names_its_cpu_by_a_tool_that_may_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> SimpleNamespace:
        raise FileNotFoundError

    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr("app.core.program.limited_run", lambda *_: SimpleNamespace(stdout=b"Apple M4 Max\n"))
    assert processor_kind() == "Apple M4 Max"
    processor_kind.cache_clear()
    sysctl.cache_clear()
    monkeypatch.setattr("app.core.program.limited_run", missing)
    assert processor_kind() == platform.machine()


# Other programs


@pytest.mark.parametrize(("grouped", "seconds"), [("1\n", 60.0), ("0\n", 10.0), (None, 10.0)])
def test_programs_of_a_lower_priority_count_where_linux_groups_by_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, grouped: str | None, seconds: float
) -> None:
    if grouped is not None:
        (tmp_path / "autogroup").write_text(grouped)
    monkeypatch.setattr(cpu, "AUTOGROUP", tmp_path / "autogroup")
    monkeypatch.setattr(cpu, "usable_processors", lambda: frozenset({0}))
    monkeypatch.setattr("psutil.cpu_times", lambda percpu: [SimpleNamespace(user=8.0, system=2.0, nice=50.0)])
    monkeypatch.setattr("os.times", lambda: (0.0, 0.0, 0.0, 0.0))
    monkeypatch.setattr("os.getpriority", lambda which, who: 0)

    assert others_seconds() == seconds


def test_other_programs_are_measured_under_load_only(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter((10.0, 11.2, 5.0, 4.9))
    monkeypatch.setattr(cpu, "others_seconds", lambda: next(seconds))
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
    assert busy_text("Other programs use", 0.5, 2) is None
    assert busy_text("Other programs use", 1.5, 2) == "Other programs use 1.5 of 2 CPUs now"


# Threads


@pytest.fixture
def cpus(monkeypatch: pytest.MonkeyPatch) -> Give:
    """Return a function that sets the CPUs of this process, and returns a reader of files about them."""

    def give(allowed: int, files: Mapping[str, str]) -> Callable[[str], str]:
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(allowed)), raising=False)
        return lambda path: files.get(path, "")

    return give


def test_thread_candidates_are_half_and_all_cores_and_all_threads(cpus: Give) -> None:
    read = cpus(16, {SIBLINGS.format(n): f"{n % 8},{n % 8 + 8}" for n in range(16)})

    assert default_threads(read) == 8
    assert thread_candidates(read) == (4, 8, 16)


def test_performance_cores_are_tried_alone(cpus: Give) -> None:
    # Six cores with two threads each, and eight weaker cores
    siblings = {SIBLINGS.format(n): f"{n // 2 * 2}-{n // 2 * 2 + 1}" for n in range(12)}
    assert thread_candidates(cpus(20, {**siblings, "/sys/devices/cpu_core/cpus": "0-11\n"})) == (6, 7, 14, 20)

    capacity = {f"/sys/devices/system/cpu/cpu{n}/cpu_capacity": "1024" if n < 2 else "400" for n in range(6)}
    assert thread_candidates(cpus(6, capacity)) == (2, 3, 6)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({f"{CGROUP}/cpu.max": "350000 100000\n"}, 3),
        ({f"{CGROUP}/cpu.max": "50000 100000\n"}, 1),
        ({f"{CGROUP}/cpu.max": "max 100000\n"}, 8),
        (
            {
                "/proc/self/cgroup": "0::/user/app\n",
                f"{CGROUP}/user/cpu.max": "400000 100000",
                f"{CGROUP}/cpu.max": "600000 100000",
            },
            4,
        ),
    ],
)
def test_a_containers_quota_counts(cpus: Give, files: dict[str, str], expected: int) -> None:
    read = cpus(8, files)

    assert default_threads(read) == expected
    assert max(thread_candidates(read)) == expected


def test_how_much_a_quota_cut_and_the_clock_of_the_slowest_cpu(cpus: Give) -> None:
    quota = {f"{CGROUP}/cpu.max": "150000 100000", f"{CGROUP}/cpu.stat": "nr_periods 200\nnr_throttled 50\n"}
    found = conditions(cpus(2, quota))
    assert (found.usable, found.quota, found.throttled, found.clock_cap) == (2, 1.5, 0.25, None)

    clocks: dict[str, str] = {}
    for n, allowed in enumerate((3_000_000, 1_500_000)):
        folder = f"/sys/devices/system/cpu/cpu{n}/cpufreq"
        clocks |= {f"{folder}/scaling_max_freq": f"{allowed}\n", f"{folder}/cpuinfo_max_freq": "3000000\n"}
    found = conditions(cpus(2, clocks))
    assert (found.clock_cap, found.quota, found.throttled) == (0.5, None, None)


@pytest.fixture
def other_system(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int, int], None]:
    """Return a function that sets a system without files about its CPUs."""

    def give(system: str, cores: int, threads: int) -> None:
        monkeypatch.setattr(sys, "platform", system)
        monkeypatch.delattr(os, "sched_getaffinity", raising=False)
        monkeypatch.setattr(os, "cpu_count", lambda: threads)
        monkeypatch.setattr(psutil, "cpu_count", lambda logical=True: threads if logical else cores)

    return give


def nothing(_: str) -> str:
    return ""


def test_windows_counts_cores_by_a_call(other_system: Callable[[str, int, int], None]) -> None:
    other_system("win32", 8, 16)
    assert default_threads(nothing) == 8
    assert thread_candidates(nothing) == (4, 8, 16)

    other_system("win32", 0, 16)
    assert default_threads(nothing) == 16


@pytest.mark.parametrize(("answer", "threads"), [("6", 6), ("", 12), ("what?", 12)])
def test_apple_performance_cores_count(
    other_system: Callable[[str, int, int], None], monkeypatch: pytest.MonkeyPatch, answer: str, threads: int
) -> None:
    other_system("darwin", 12, 12)
    monkeypatch.setattr(cpu, "sysctl", lambda name: answer if name == "hw.perflevel0.physicalcpu" else "")

    assert default_threads(nothing) == threads
    assert thread_candidates(nothing) == (6, 12)
