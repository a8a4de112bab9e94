"""Scripted facts about other machines for `tandem doctor`."""

from collections.abc import Iterable
from dataclasses import replace

from app.cli.doctor import render
from app.hardware.builds import Advice
from app.hardware.checks import Check, Facts, Terminal, llama_checks, machine_checks, terminal_check
from app.hardware.devices import BuildInfo, Device
from app.hardware.gpus import Gpu
from app.hardware.machine import Machine

GIB = 1 << 30

CPU = Device("CPU", "cpu", "CPU", 20 * GIB, "AMD EPYC", 24 * GIB)
CUDA0 = Device("CUDA0", "gpu", "CUDA", 20 * GIB, "NVIDIA GeForce RTX 4090", 24 * GIB)
RTX = Gpu("nvidia", "RTX 4090", 24 * GIB, 23 * GIB, "550.54.15", "CUDA 12.4", target="8.9", api="12.4")
ADVICE = Advice(
    "CUDA", "It lacks CUDA.", "pip install cuda-build", ("Install the toolkit.",), "pip build", "Or build it"
)
TERMINAL = Terminal(True, "xterm-256color", 120, 40, 256, unicode=True)


def fake_build(
    backends: tuple[str, ...] = ("CPU",), features: tuple[str, ...] = ("AVX2", "LLAMAFILE"), errors: str = ""
) -> BuildInfo:
    return BuildInfo("0.3.36", "0.5.0", "0c1e570", "", backends, len(backends) > 1, features, errors)


FACTS = Facts(
    machine=Machine("linux", "AMD EPYC", 2, 4, 24 * GIB, 20 * GIB, ()),
    build=fake_build(),
    devices=(CPU,),
    failure=None,
    advice=None,
    terminal=TERMINAL,
    environment=(Check("ok", "tandem", "0.1.0"), Check("ok", "cache", "/c, 107 GB free")),
)


def with_gpu(gpu: Gpu = RTX, **changes: object) -> Facts:
    return replace(FACTS, machine=replace(FACTS.machine, gpus=(gpu,)), **changes)  # type: ignore[arg-type]


def line(checks: Iterable[Check], label: str) -> Check:
    (found,) = [check for check in checks if check.label == label]
    return found


def sections(facts: Facts) -> dict[str, list[Check]]:
    environment = [*facts.environment, terminal_check(facts.terminal)]
    return {"machine": machine_checks(facts), "llama.cpp": llama_checks(facts), "environment": environment}


def checks(facts: Facts) -> list[Check]:
    return [check for section in sections(facts).values() for check in section]


def text(facts: Facts, columns: int = 120) -> str:
    return "\n".join(render(sections(facts), columns=columns, color=False))
