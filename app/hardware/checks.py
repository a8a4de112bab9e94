"""The checks of `tandem doctor`: machine, llama.cpp, folders and terminal."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from app.core.errors import AppError
from app.core.units import GB, counted, free_memory, gigabytes, memory_size
from app.hardware.builds import Advice, is_usable, missed
from app.hardware.devices import BuildInfo, Device
from app.hardware.gpus import Gpu
from app.hardware.machine import Machine

State = Literal["ok", "untried", "warning", "problem"]
"""State of a check; "untried" for values that were not tested."""

_SCARCE_RAM = 2 * GB
_SCARCE_DISK, _FULL_DISK = 5 * GB, GB // 2
_MIN_COLUMNS, _MIN_ROWS = 60, 16
_TRUE_COLOR = 1 << 24
# llama.cpp's CPU features that decide the speed
_CPU_FEATURES = ("AVX2", "AVX512", "AMX_INT8", "NEON", "DOTPROD", "MATMUL_INT8", "SVE")
_VENDOR_NAMES = {"nvidia": "NVIDIA", "amd": "AMD", "intel": "Intel", "apple": "Apple"}


@dataclass(frozen=True, slots=True)
class Check:
    """A value and what is wrong with it.

    Attributes:
        hint: The fix, one line each; commands begin with two spaces and are never wrapped.
        problem: Short sentence for the summary, if the text is too long for it.
        slowdown: Measured factor by which this slows a pair down.
    """

    state: State
    label: str
    text: str
    hint: tuple[str, ...] = ()
    problem: str | None = None
    slowdown: float | None = None

    @classmethod
    def of(cls, state: State, label: str, error: AppError) -> Check:
        """Return the check of something that failed with an error."""
        return cls(state, label, error.message, (error.hint,) if error.hint else ())

    @property
    def failed(self) -> bool:
        return self.state in ("warning", "problem")


@dataclass(frozen=True, slots=True)
class Terminal:
    """A terminal's abilities; `live` if the output is a terminal; 0 colors for no color."""

    live: bool
    name: str
    columns: int
    rows: int
    colors: int
    unicode: bool


@dataclass(frozen=True, slots=True)
class Facts:
    """All detected facts.

    Attributes:
        build: The installed build; None if it cannot be loaded, which `failure` explains.
        hidden: Environment variables that hide devices from llama.cpp, as NAME=VALUE.
    """

    machine: Machine
    build: BuildInfo | None
    devices: tuple[Device, ...]
    failure: AppError | None
    advice: Advice | None
    terminal: Terminal
    environment: tuple[Check, ...] = ()
    hidden: tuple[str, ...] = ()

    @property
    def advised_gpu(self) -> Gpu | None:
        """The unused GPU that the advice is for."""
        if self.advice is None or self.build is None:
            return None
        unused = missed(self.machine.gpus, self.devices)
        return next((gpu for gpu in unused if gpu.has_driver), None)


def worst(checks: Iterable[Check]) -> State:
    """Return the worst state of all checks."""
    states = {check.state for check in checks}
    return "problem" if "problem" in states else "warning" if "warning" in states else "ok"


def summary(checks: Iterable[Check]) -> list[str]:
    """Return the most important problem as one line, and the command that fixes it."""
    found = [check for check in checks if check.failed]
    if not found:
        return ["No problems found."]
    first = min(found, key=lambda check: check.state != "problem")
    commands = [hint for hint in first.hint if hint.startswith("  ")]
    n_found = "1 problem:" if len(found) == 1 else f"{len(found)} problems; the first:"
    return [f"{n_found} {first.problem or first.text}", *commands[:1]]


def machine_checks(facts: Facts) -> list[Check]:
    """Check CPU, RAM and GPUs."""
    machine = facts.machine
    checks = [_cpu(machine), _memory(machine), *(_gpu(gpu, facts) for gpu in machine.gpus)]
    if not machine.gpus:
        hint = ("WSL supports NVIDIA GPUs only. For others, run Tandem on Windows.",) if machine.wsl else ()
        checks.append(Check("ok", "GPU", "none found", hint))
    return [*checks, *(Check("warning", "tool", trouble) for trouble in machine.troubles)]


def llama_checks(facts: Facts) -> list[Check]:
    """Check the installed llama.cpp and list its devices."""
    checks = [_build(facts), *(_device(device) for device in facts.devices if device.kind != "accel")]
    hint = ("This variable limits the devices that llama.cpp sees.",)
    return [*checks, *(Check("warning", "setting", name, hint) for name in facts.hidden)]


def _cpu(machine: Machine) -> Check:
    text = f"{machine.cpu}, {counted(machine.physical_cores, 'core')}"
    if machine.logical_cores != machine.physical_cores:
        text += f", {machine.logical_cores} threads"
    if machine.translated:
        problem = "this Python is built for Intel and runs under Rosetta, many times slower"
        return Check("problem", "CPU", text, ("Install Python for arm64.",), problem)
    return Check("ok", "CPU", text)


def _memory(machine: Machine) -> Check:
    text = free_memory(machine.ram_available, machine.ram_total)
    if machine.ram_available < _SCARCE_RAM:
        hint = ("Close other programs, or choose a smaller pair.",)
        return Check("warning", "memory", text, hint, f"only {memory_size(machine.ram_available)} of RAM free")
    return Check("ok", "memory", text)


def _gpu(gpu: Gpu, facts: Facts) -> Check:
    parts = [gpu.name]
    if gpu.total_bytes is not None:
        parts.append(free_memory(gpu.free_bytes, gpu.total_bytes))
    elif gpu.integrated:
        parts.append("shares RAM")
    supports = f" (up to CUDA {gpu.api})" if gpu.api else ""
    parts.append(f"driver {gpu.driver}{supports}" if gpu.driver else "no driver")
    parts += [gpu.toolkit] if gpu.toolkit else []
    text = ", ".join(parts)
    if is_usable(gpu, facts.devices, facts.machine.gpus):
        return Check("ok", "GPU", f"{text}: used by llama.cpp")
    if not gpu.has_driver:
        install = f"Install {_VENDOR_NAMES[gpu.vendor]}'s own driver; llama.cpp needs it."
        return Check("warning", "GPU", text, (install,), f"your {gpu.name} has no driver that llama.cpp can use")
    hint = _commands(facts.advice) if gpu is facts.advised_gpu else ()
    if gpu.integrated and gpu.vendor != "apple":
        return Check("ok", "GPU", f"{text}: not used; integrated, so little is lost", hint)
    return Check("warning", "GPU", f"{text}: not used", hint, f"your {gpu.name} is not used")


def _commands(advice: Advice | None) -> tuple[str, ...]:
    if advice is None:
        return ()
    other = (f"{advice.other_needs}:", f"  {advice.other}") if advice.other else ()
    return (advice.reason, *advice.notes, f"  {advice.command}", *other)


def _build(facts: Facts) -> Check:
    if facts.build is None:
        failure = facts.failure or AppError("llama.cpp cannot be loaded.")
        return Check("problem", "build", failure.message, _commands(facts.advice) or (failure.hint,))
    features = [name for name in _CPU_FEATURES if name in facts.build.features]
    text = ", ".join([*facts.build.backends, *features])
    hint = _commands(facts.advice) if facts.advised_gpu is None else ()
    if facts.build.errors:
        return Check("warning", "build", f"{text}; it reports: {facts.build.errors}", hint)
    if hint and facts.advice is not None and facts.advice.urgent:
        return Check("warning", "build", text, hint, facts.advice.reason)
    return Check("ok", "build", text, hint)


def _device(device: Device) -> Check:
    memory = free_memory(device.free_bytes, device.total_bytes)
    if device.kind == "software":
        memory = "a software renderer on the CPU: used only if named"
    elif device.kind == "igpu":
        memory = f"up to {memory_size(device.total_bytes)} of RAM" if device.total_bytes else "shares RAM"
    return Check("ok", "device", f"{device.name}, {device.description}, {memory}")


def folder_check(label: str, path: Path) -> Check:
    """Check a folder, or its nearest existing parent: it must be writable, and its disk must have space."""
    there = path
    # Path.exists raises if access to a parent folder is denied.
    while not os.path.exists(there) and there != there.parent:  # noqa: PTH110
        there = there.parent
    try:
        free = shutil.disk_usage(there).free
    except OSError:
        free = _SCARCE_DISK
        text = str(path)
    else:
        text = f"{path}, {gigabytes(free)} free"
    if not (there.is_dir() and os.access(there, os.W_OK | os.X_OK)):
        return Check("problem", label, text, ("Change its owner or permissions.",), f"cannot write {path}")
    if free < _FULL_DISK:
        return Check("problem", label, text, ("Delete files.",), f"the disk of {path} is full")
    if free < _SCARCE_DISK:
        return Check("warning", label, text, ("Little space for models.",), f"only {gigabytes(free)} free for models")
    return Check("ok", label, text)


def terminal(env: Mapping[str, str], *, live: bool, size: tuple[int, int], encoding: str, system: str) -> Terminal:
    """Detect the terminal from its environment, its size in columns and rows, and the encoding of the output."""
    term = env.get("TERM", "")
    windows_terminal = "Windows Terminal" if env.get("WT_SESSION") else ""
    return Terminal(
        live=live,
        name=env.get("TERM_PROGRAM") or windows_terminal or term or "unknown",
        columns=size[0],
        rows=size[1],
        colors=_colors(env, term, system),
        unicode=encoding.lower().replace("-", "") == "utf8" and term not in ("dumb", "linux"),
    )


def _colors(env: Mapping[str, str], term: str, system: str) -> int:
    if env.get("NO_COLOR") or term == "dumb":
        return 0
    if env.get("COLORTERM", "").lower() in ("truecolor", "24bit") or env.get("WT_SESSION") or "direct" in term:
        return _TRUE_COLOR
    if "256color" in term:
        return 256
    return 16 if term or system == "windows" else 0


def terminal_check(t: Terminal) -> Check:
    """Check that the terminal is large enough, and shows colors and UTF-8."""
    if not t.live:
        return Check("ok", "terminal", "output is not a terminal")
    colors = "16 million" if t.colors > 256 else t.colors or "no"
    text = f"{t.name}, {t.columns}×{t.rows}, {colors} colors, {'UTF-8' if t.unicode else 'no UTF-8'}"
    if t.columns < _MIN_COLUMNS or t.rows < _MIN_ROWS:
        hint = (f"The chat needs {_MIN_COLUMNS} columns and {_MIN_ROWS} rows. Enlarge the window.",)
        return Check("warning", "terminal", text, hint, "the terminal is too small")
    if not t.unicode:
        return Check("warning", "terminal", text, ("Set a UTF-8 locale (LANG=C.UTF-8).",), "the terminal has no UTF-8")
    if 0 < t.colors < 256:
        hint = ("If the terminal can show more colors, set COLORTERM=truecolor.",)
        return Check("warning", "terminal", text, hint, f"the terminal shows only {t.colors} colors")
    return Check("ok", "terminal", text)
