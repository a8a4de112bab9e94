"""Which processors a machine has, as far as what was measured on it depends on that."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from app.hardware import processors
from app.hardware.processors import processor_kind

X86 = "processor\t: {}\nmodel\t\t: 68\nmodel name\t: Some {} 9\nstepping\t: 0\ncpu MHz\t\t: 24{}0.1\nflags\t\t: fpu\n\n"
ARM = "processor\t: {}\nCPU implementer\t: 0x41\nCPU part\t: {}\n\n"


@pytest.fixture(autouse=True)
def anew() -> Iterator[None]:
    processor_kind.cache_clear()
    yield
    processor_kind.cache_clear()


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """The kind of a processor that Linux tells of so."""
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(processors, "_CPUINFO", file := tmp_path / "cpuinfo")

    def kind(text: str) -> str:
        file.write_text(text)
        processor_kind.cache_clear()
        return processor_kind()

    return kind


def test_another_model_is_another_kind_and_another_clock_is_not(told: Callable[[str], str]) -> None:
    one = told(X86.format(0, "Ryzen", 1) + X86.format(1, "Ryzen", 2))

    assert one == told(X86.format(0, "Ryzen", 7)) == "model 68, model name Some Ryzen 9, stepping 0"
    assert one != told(X86.format(0, "Threadripper", 1))


def test_weak_and_strong_cores_are_one_kind_in_any_order(told: Callable[[str], str]) -> None:
    one = told(ARM.format(0, "0xd05") + ARM.format(1, "0xd0a"))

    assert one == told(ARM.format(0, "0xd0a") + ARM.format(1, "0xd05"))
    assert one != told(ARM.format(0, "0xd0a"))


def test_what_a_system_does_not_tell_is_at_least_what_kind_of_machine_it_is(
    told: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert told("") == platform.machine()
    monkeypatch.setattr(processors, "_CPUINFO", Path("/no/such/file"))
    processor_kind.cache_clear()
    assert processor_kind() == platform.machine()


def test_apple_tells_it_by_a_tool_that_may_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> SimpleNamespace:
        raise FileNotFoundError

    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr("app.core.program.limited_run", lambda *_: SimpleNamespace(stdout=b"Apple M4 Max\n"))
    assert processor_kind() == "Apple M4 Max"
    processor_kind.cache_clear()
    monkeypatch.setattr("app.core.program.limited_run", missing)
    assert processor_kind() == platform.machine()


@pytest.mark.parametrize(("grouped", "seconds"), [("1\n", 60.0), ("0\n", 10.0), (None, 10.0)])
def test_programs_of_a_lower_priority_count_where_linux_groups_by_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, grouped: str | None, seconds: float
) -> None:
    autogroup = tmp_path / "autogroup"
    if grouped is not None:
        autogroup.write_text(grouped)
    monkeypatch.setattr(processors, "_AUTOGROUP", autogroup)
    processors._groups_ignore_priority.cache_clear()
    monkeypatch.setattr(processors, "usable_processors", lambda: frozenset({0}))
    monkeypatch.setattr("psutil.cpu_times", lambda percpu: [SimpleNamespace(user=8.0, system=2.0, nice=50.0)])
    monkeypatch.setattr("os.times", lambda: (0.0, 0.0, 0.0, 0.0))
    monkeypatch.setattr("os.getpriority", lambda which, who: 0)
    assert processors.others_seconds() == seconds
    processors._groups_ignore_priority.cache_clear()
