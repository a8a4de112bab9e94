"""What `tandem doctor` has to go by on machines that we do not have, for tests."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from app.cli.doctor.lines import render
from app.hardware.builds import Advice
from app.hardware.checks import Facts, Line, Section, places, screen, versions, views
from app.hardware.gpus import Gpu
from app.hardware.machine import Machine
from app.hardware.system import Place
from app.hardware.terminal import Terminal
from tests.machines import FakeBuild, FakeDevice

GIB = 1 << 30
SECTIONS = (views, versions, places, screen)


CPU = FakeDevice("CPU", "AMD EPYC", "cpu", "CPU")
RTX = Gpu("nvidia", "RTX 4090", 24 * GIB, 23 * GIB, "550.54.15", "CUDA 12.4", target="8.9", api="12.4")
ADVICE = Advice(
    "CUDA", "It lacks CUDA.", "pip install cuda-build", ("Install the toolkit.",), "pip build", "Or build it"
)
GOOD = Terminal(True, "xterm-256color", 120, 40, 256, unicode=True, clipboard=True, multiplexer="")
FACTS = Facts(
    machine=Machine("linux", "AMD EPYC", 2, 4, 24 * GIB, 20 * GIB, ()),
    build=FakeBuild(commit="0c1e570"),
    devices=(CPU,),
    failure=None,
    advice=None,
    terminal=GOOD,
    places=(Place("cache", Path("/c"), True, 100 * GIB),),
    versions=(("tandem", "0.1.0"),),
)


def with_gpu(gpu: Gpu = RTX, **changes: object) -> Facts:
    return replace(FACTS, machine=replace(FACTS.machine, gpus=(gpu,)), **changes)  # type: ignore[arg-type]


def line(section: Section, label: str) -> Line:
    (found,) = [line for line in section.lines if line.label == label]
    return found


def text(facts: Facts, columns: int = 120) -> str:
    return "\n".join(render([s(facts) for s in SECTIONS], columns=columns, color=False))
