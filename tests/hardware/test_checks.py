"""The checks of `tandem doctor` on other machines and terminals."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from app.core.errors import ModelLoadError
from app.hardware.checks import (
    Check,
    Facts,
    Terminal,
    folder_check,
    llama_checks,
    machine_checks,
    summary,
    terminal,
    terminal_check,
    worst,
)
from app.hardware.devices import Device
from app.hardware.gpus import Gpu
from tests.cli.doctor_facts import ADVICE, CPU, CUDA0, FACTS, GIB, RTX, TERMINAL, checks, fake_build, line, with_gpu

IRIS = Gpu("intel", "Iris", None, None, "i915", None, integrated=True)
COMMANDS = ("It lacks CUDA.", "Install the toolkit.", "  pip install cuda-build", "Or build it:", "  pip build")


def on(**changes: Any) -> Facts:
    return replace(FACTS, machine=replace(FACTS.machine, **changes))


def told(facts: Facts) -> list[str]:
    return summary(checks(facts))


def test_the_summary_names_the_worst_problem_first() -> None:
    full = with_gpu(environment=(Check("problem", "cache", "/c", problem="the disk of /c is full"),))

    assert told(full) == ["2 problems; the first: the disk of /c is full"]


def test_a_used_gpu_is_ok() -> None:
    software = Device("Vulkan0", "software", "Vulkan", 0, "llvmpipe (LLVM 15.0.6)", 0)
    facts = with_gpu(devices=(CPU, CUDA0, software), build=fake_build(("CUDA", "CPU")))

    assert worst(machine_checks(facts)) == "ok"
    assert line(machine_checks(facts), "GPU").text.endswith(": used by llama.cpp")
    devices = [check.text for check in llama_checks(facts) if check.label == "device"]
    assert devices[1:] == [
        "CUDA0, NVIDIA GeForce RTX 4090, 20 GB of 24 GB free",
        "Vulkan0, llvmpipe (LLVM 15.0.6), a software renderer on the CPU: used only if named",
    ]


@pytest.mark.parametrize(
    ("facts", "label", "state", "problem"),
    [
        *(
            (
                with_gpu(replace(RTX, driver=name)),
                "GPU",
                "warning",
                "your RTX 4090 has no driver that llama.cpp can use",
            )
            for name in (None, "nouveau", "radeon")
        ),
        (with_gpu(IRIS, advice=replace(ADVICE, urgent=False)), "GPU", "ok", ""),
        (
            on(translated=True),
            "CPU",
            "problem",
            "this Python is built for Intel and runs under Rosetta, many times slower",
        ),
        (replace(FACTS, advice=ADVICE), "build", "warning", "It lacks CUDA."),
        (on(ram_available=GIB), "memory", "warning", "only 1 GB of RAM free"),
    ],
)
def test_a_problem_and_its_sentence(facts: Facts, label: str, state: str, problem: str) -> None:
    (found,) = [check for check in checks(facts) if check.label == label]

    assert (found.state, found.problem or "") == (state, problem)


def test_a_library_that_does_not_load_is_a_problem() -> None:
    broken = replace(FACTS, build=None, devices=(), failure=ModelLoadError("It is broken.", "Fix it."))
    assert line(llama_checks(broken), "build") == Check("problem", "build", "It is broken.", ("Fix it.",))
    assert line(llama_checks(replace(broken, advice=ADVICE)), "build").hint == COMMANDS


def test_library_errors_hidden_devices_and_silent_tools_are_warnings() -> None:
    facts = on(troubles=("nvidia-smi did not answer within 10 seconds.",))
    facts = replace(facts, hidden=("CUDA_VISIBLE_DEVICES=",), build=fake_build(errors="no CUDA"))

    assert [check.label for check in checks(facts) if check.failed] == ["tool", "build", "setting"]


@pytest.mark.parametrize(("free", "state"), [(100 * GIB, "ok"), (GIB, "warning"), (1 << 20, "problem"), (None, "ok")])
def test_a_folder_needs_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int | None, state: str) -> None:
    def usage(folder: Path) -> SimpleNamespace:
        assert folder == tmp_path, "the nearest that exists"
        if free is None:
            raise PermissionError
        return SimpleNamespace(free=free)

    monkeypatch.setattr("shutil.disk_usage", usage)
    found = folder_check("cache", tmp_path / "a" / "b")
    assert (found.state, found.text.partition(",")[0]) == (state, str(tmp_path / "a" / "b"))

    (tmp_path / "a").write_text("")
    monkeypatch.undo()
    assert str(folder_check("cache", tmp_path / "a" / "b").problem).startswith("cannot write ")


# Terminals


def seen(encoding: str = "utf-8", system: str = "linux", **env: str) -> Terminal:
    return terminal(env, live=True, size=(100, 30), encoding=encoding, system=system)


@pytest.mark.parametrize(
    ("env", "colors"),
    [
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, 1 << 24),
        ({"TERM": "xterm-256color"}, 256),
        ({"TERM": "xterm-direct"}, 1 << 24),
        ({"TERM": "xterm"}, 16),
        ({"TERM": "dumb"}, 0),
        ({}, 0),
        ({"WT_SESSION": "x"}, 1 << 24),
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor", "NO_COLOR": "1"}, 0),
        ({"TERM": "xterm", "NO_COLOR": ""}, 16),
    ],
)
def test_colors_come_from_the_environment(env: dict[str, str], colors: int) -> None:
    assert seen(**env).colors == colors
    assert seen(system="windows").colors == 16


@pytest.mark.parametrize(
    ("encoding", "term", "expected"),
    [("utf-8", "xterm", True), ("UTF8", "xterm", True), ("ascii", "xterm", False), ("utf-8", "linux", False)],
)
def test_unicode_needs_an_encoding_and_a_terminal(encoding: str, term: str, expected: bool) -> None:
    assert seen(encoding, TERM=term).unicode is expected


@pytest.mark.parametrize(
    ("poor", "problem"),
    [
        (replace(TERMINAL, columns=40), "the terminal is too small"),
        (replace(TERMINAL, unicode=False), "the terminal has no UTF-8"),
        (replace(TERMINAL, colors=16), "the terminal shows only 16 colors"),
        (replace(TERMINAL, live=False, columns=0, rows=0, unicode=False), ""),
    ],
)
def test_a_poor_terminal_is_a_warning(poor: Terminal, problem: str) -> None:
    found = terminal_check(poor)

    assert (found.state, found.problem or "") == ("warning" if problem else "ok", problem)
