"""Checks of `tandem doctor`: machine, library, disks and terminal, each with a state and a fix."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from app.core.errors import AppError
from app.core.units import GB, counted, free_memory, gigabytes, memory_size
from app.hardware.builds import Advice, Built, Usable, is_usable, missed
from app.hardware.gpus import Gpu
from app.hardware.machine import Machine
from app.hardware.system import Place
from app.hardware.terminal import Terminal

State = Literal["ok", "untried", "warning", "problem"]
"""State of a line; "untried" for values that were not tested."""

_SCARCE_RAM = 2 * GB
_SCARCE_DISK, _NO_DISK = 5 * GB, GB // 2
_LEAST_COLUMNS, _LEAST_ROWS = 60, 16
# Instructions that decide how fast a processor is here; llama.cpp lists many more.
_TELLING = ("AVX2", "AVX512", "AMX_INT8", "NEON", "DOTPROD", "MATMUL_INT8", "SVE")
_IN_WSL = "WSL supports NVIDIA GPUs only. For others, run Tandem on Windows."
_MAKERS = {"nvidia": "NVIDIA", "amd": "AMD", "intel": "Intel", "apple": "Apple"}


class Installed(Built, Protocol):
    """The installed build, with its versions."""

    @property
    def binding(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def commit(self) -> str: ...

    @property
    def errors(self) -> str: ...


class Listed(Usable, Protocol):
    """A device, with its memory."""

    @property
    def name(self) -> str: ...

    @property
    def total_bytes(self) -> int: ...

    @property
    def free_bytes(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that was looked at.

    Attributes:
        state: How it is.
        label: What it is.
        text: What was found.
        other: What llama.cpp has to the same, in the section with the two views.
        hint: What to do about it, a line each; commands begin with two spaces and are not broken.
    """

    state: State
    label: str
    text: str
    other: str = ""
    hint: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Section:
    """Lines under a heading.

    Attributes:
        title: The heading.
        lines: What stands under it.
        other: The heading of the second column, where there is one.
        whose: Who says what is in the second column, where it stands below the first.
    """

    title: str
    lines: tuple[Line, ...]
    other: str = ""
    whose: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """All that the sections are made of.

    Attributes:
        machine: What there is.
        build: What is installed, or None if it cannot be loaded.
        devices: What it can use.
        failure: Why it cannot be loaded.
        advice: A better build.
        terminal: What it can do.
        places: Where things live.
        versions: Names and versions of what takes part.
        hidden: Environment variables that hide devices from llama.cpp, as NAME=VALUE.
    """

    machine: Machine
    build: Installed | None
    devices: Sequence[Listed]
    failure: AppError | None
    advice: Advice | None
    terminal: Terminal
    places: tuple[Place, ...] = ()
    versions: tuple[tuple[str, str], ...] = ()
    hidden: tuple[str, ...] = ()


def worst(sections: Iterable[Section]) -> State:
    """The worst state of any line."""
    states = {line.state for section in sections for line in section.lines}
    return "problem" if "problem" in states else "warning" if "warning" in states else "ok"


def summary(facts: Facts, sections: Iterable[Section]) -> list[str]:
    """Return the most important finding as one line, and the command that fixes it."""
    found = [line for section in sections for line in section.lines if line.state in ("problem", "warning")]
    found.sort(key=lambda line: line.state != "problem")
    gpus = missed(facts.machine.gpus, facts.devices)
    if gpus and facts.advice is not None and facts.advice.urgent:
        n = 1 + sum(line.label not in ("graphics", "build") for line in found)
        first, commands = f"your {gpus[0].name} is not used", [facts.advice.command]
    elif found:
        n, first = len(found), found[0].text or found[0].other
        commands = [hint.strip() for hint in found[0].hint if hint.startswith("  ")]
    else:
        return ["No problems found."]
    return [f"{counted(n, 'problem')}: {first}", *(f"  {command}" for command in commands[:1])]


def views(facts: Facts) -> Section:
    """Compare the machine with what llama.cpp can use."""
    machine = facts.machine
    lines = [_processor(facts), _memory(facts), *(_graphics(gpu, facts) for gpu in machine.gpus)]
    if not machine.gpus:
        lines.append(Line("ok", "graphics", "none found", hint=(_IN_WSL,) if machine.wsl else ()))
    lines += [
        Line("ok", "device", "", f"{d.name}, {d.description}, {_own_or_shared(d)}")
        for d in facts.devices
        if d.kind in ("gpu", "igpu")
    ]
    lines += [
        Line("ok", "device", "", f"{d.name}, {d.description}, a software renderer on the CPU: used only if named")
        for d in facts.devices
        if d.kind == "software"
    ]
    lines.append(_build(facts))
    lines += [Line("warning", "tool", trouble) for trouble in machine.troubles]
    hint = "This variable limits the devices that llama.cpp sees."
    lines += [Line("warning", "setting", "", name, (hint,)) for name in facts.hidden]
    return Section("this machine has", tuple(lines), other="llama.cpp can use", whose="llama.cpp")


def versions(facts: Facts) -> Section:
    """List versions."""
    return Section("versions", tuple(Line("ok", name, text) for name, text in facts.versions))


def places(facts: Facts) -> Section:
    """Check that folders are writable and have space."""
    return Section("places", tuple(_place(place) for place in facts.places))


def screen(facts: Facts) -> Section:
    """Check the terminal."""
    t = facts.terminal
    if not t.live:
        return Section("terminal", (Line("ok", "terminal", "output is not a terminal"),))
    through = f" in {t.multiplexer}" if t.multiplexer else ""
    lines = [Line("ok", "terminal", f"{t.name}{through}"), _size(t), _colors(t)]
    if t.unicode:
        lines.append(Line("ok", "unicode", "yes"))
    else:
        hint = ("Use a terminal and a locale of UTF-8 (LANG=C.UTF-8); other characters will show as marks.",)
        lines.append(Line("warning", "unicode", "no", hint=hint))
    if t.clipboard:
        by = "by the system or OSC 52" if t.has_copier else "by OSC 52"
        lines.append(Line("ok", "clipboard", by + (f", where {t.multiplexer} lets it through" if through else "")))
    else:
        hint = ("This terminal does not take copied text from programs; select with the mouse instead.",)
        lines.append(Line("warning", "clipboard", "no", hint=hint))
    return Section("terminal", tuple(lines))


def _processor(facts: Facts) -> Line:
    machine = facts.machine
    text = f"{machine.cpu}, {machine.physical_cores} core{'s' if machine.physical_cores != 1 else ''}"
    if machine.logical_cores != machine.physical_cores:
        text += f", {machine.logical_cores} threads"
    if machine.translated:
        hint = ("This Python is built for Intel and runs under Rosetta, many times slower. Install Python for arm64.",)
        return Line("problem", "CPU", text, hint=hint)
    used = [name for name in _TELLING if facts.build is not None and name in facts.build.features]
    devices = [device.name for device in facts.devices if device.kind in ("cpu", "accel")]
    return Line("ok", "CPU", text, ", ".join([*devices, *used]))


def _memory(facts: Facts) -> Line:
    text = free_memory(facts.machine.ram_available, facts.machine.ram_total)
    other = next((free_memory(d.free_bytes, d.total_bytes) for d in facts.devices if d.kind == "cpu"), "")
    if facts.machine.ram_available < _SCARCE_RAM:
        hint = ("Close other programs, or choose a smaller pair.",)
        return Line("warning", "memory", text, other, hint)
    return Line("ok", "memory", text, other)


def _graphics(gpu: Gpu, facts: Facts) -> Line:
    parts = [gpu.name]
    if gpu.total_bytes is not None:
        parts.append(free_memory(gpu.free_bytes, gpu.total_bytes))
    elif gpu.integrated:
        parts.append("shares RAM")
    takes = f" (up to CUDA {gpu.api})" if gpu.api else ""
    parts.append(f"driver {gpu.driver}{takes}" if gpu.driver else "no driver")
    parts += [f"with {gpu.toolkit}"] if gpu.toolkit else []
    text = ", ".join(parts)
    if is_usable(gpu, facts.devices, facts.machine.gpus):
        return Line("ok", "graphics", text, "yes")
    if not gpu.driver or gpu.driver.startswith("nouveau"):
        hint = (f"Install {_MAKERS[gpu.vendor]}'s own driver; llama.cpp needs it.",)
        return Line("warning", "graphics", text, "no", hint)
    if gpu.integrated and gpu.vendor != "apple":
        return Line("ok", "graphics", text, "no; integrated, so little is lost")
    return Line("warning", "graphics", text, "no")


def _own_or_shared(device: Listed) -> str:
    if device.kind == "gpu":
        return free_memory(device.free_bytes, device.total_bytes)
    return f"up to {memory_size(device.total_bytes)} of RAM" if device.total_bytes else "shares RAM"


def _build(facts: Facts) -> Line:
    given = facts.advice
    hint: list[str] = []
    if given is not None:
        hint += [given.reason, *given.notes, f"  {given.command}"]
        hint += [f"{given.other_needs}:", f"  {given.other}"] if given.other else []
    if facts.failure is not None or facts.build is None:
        message = facts.failure.message if facts.failure else "llama.cpp cannot be loaded."
        own = facts.failure.hint if facts.failure and not hint else ""
        return Line("problem", "build", "", message, (*([own] if own else []), *hint))
    text = ", ".join(facts.build.backends) or "no backend"
    if facts.build.errors:
        return Line("warning", "build", "", f"{text}; it says: {facts.build.errors}", tuple(hint))
    return Line("warning" if given is not None and given.urgent else "ok", "build", "", text, tuple(hint))


def _place(place: Place) -> Line:
    room = f", {gigabytes(place.free_bytes)} free" if place.free_bytes is not None else ""
    text = f"{place.path}{room}"
    if not place.writable:
        return Line("problem", place.label, text, hint=("Not writable: change its owner or permissions.",))
    if place.free_bytes is not None and place.free_bytes < _NO_DISK:
        return Line("problem", place.label, text, hint=("The disk is full. Delete something.",))
    if place.free_bytes is not None and place.free_bytes < _SCARCE_DISK:
        return Line("warning", place.label, text, hint=("Little space for models.",))
    return Line("ok", place.label, text)


def _size(t: Terminal) -> Line:
    text = f"{t.columns} columns, {t.rows} rows"
    if t.columns < _LEAST_COLUMNS or t.rows < _LEAST_ROWS:
        hint = (f"The chat needs {_LEAST_COLUMNS} columns and {_LEAST_ROWS} rows. Enlarge the window.",)
        return Line("warning", "size", text, hint=hint)
    return Line("ok", "size", text)


def _colors(t: Terminal) -> Line:
    if t.colors == 0:
        return Line("ok", "colors", "none, as NO_COLOR or the terminal says")
    if t.colors < 256:
        hint = ("If the terminal can do more, set COLORTERM=truecolor.",)
        return Line("warning", "colors", str(t.colors), hint=hint)
    return Line("ok", "colors", "16 million" if t.colors > 256 else "256")
