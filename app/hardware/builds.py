"""Explain why the installed llama.cpp does not run, and find the build and command for this machine.

Data: libraries.toml.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from app.core.errors import ModelLoadError
from app.core.printable import one_line
from app.core.program import ExitStatus
from app.hardware.build_choices import BuildChoice, choices_for, cuda_packages, known_builds, newest_wheel, with_source
from app.hardware.devices import BuildInfo, Device
from app.hardware.gpus import Gpu
from app.hardware.installation import Installation
from app.hardware.machine import Machine

_MISSING_LIBRARY = re.compile("cannot open shared object|Could not find module|WinError 126")
_TOO_OLD = re.compile(r"version [`'](GLIBC(?:XX)?)_([\d.]+)' not found")
_FOREIGN_BINARY = re.compile(
    "wrong ELF class|invalid ELF header|incompatible architecture|not a valid Win32|WinError 193"
)
_OWN_BACKEND = {"nvidia": "cuda", "amd": "rocm", "apple": "metal"}
# Words in a device's description under Vulkan
_VENDOR_WORDS = {
    "nvidia": ("nvidia", "geforce", "quadro", "tesla"),
    "amd": ("amd", "radeon"),
    "intel": ("intel", "arc"),
    "apple": ("apple",),
}
_ON_WINDOWS = "Run it in PowerShell after closing Tandem: Windows cannot replace files in use."
_SLOW_RAM = "This llama.cpp does not use AVX2, so layers and experts in RAM run many times slower."


@dataclass(frozen=True, slots=True)
class LoadFailure:
    """A failure to load llama.cpp.

    Attributes:
        reason: What is wrong, as a clause.
        fix: How to make the installed build run, as a sentence; None if only another build helps.
        avoid: Backends whose ready-made builds would fail in the same way.
        cuda: Major version of the CUDA toolkit whose libraries are missing.
    """

    reason: str
    fix: str | None = None
    avoid: tuple[str, ...] = ()
    can_compile: bool = False
    cuda: str | None = None

    @property
    def message(self) -> str:
        return f"llama.cpp cannot run here: {self.reason}."


class LibraryError(ModelLoadError):
    """llama.cpp cannot be loaded, or crashes at its start."""

    def __init__(self, failure: LoadFailure, hint: str = "") -> None:
        super().__init__(failure.message, hint)
        self.failure = failure


def loader_failure(text: str, installed: tuple[str, ...]) -> LoadFailure:
    """Explain an import error, such as a missing library; `installed` as for `start_failure`."""
    if _MISSING_LIBRARY.search(text):
        known = tomllib.loads(Path(__file__).with_name("libraries.toml").read_text(encoding="utf-8"))
        for library in known["libraries"]:
            if found := re.search(library["name"], text):
                values, is_named = found.groupdict(), ".so" in found[0]
                needed_by = [library["backend"]] if "backend" in library else [] if is_named else installed
                avoid = tuple(backend for backend in needed_by if backend != "cpu")
                file = f"{found[0]} is missing, which belongs to" if is_named else "Windows does not find a library of"
                fix = library["fix"].format(**values)
                return LoadFailure(f"{file} {library['owner'].format(**values)}", fix, avoid, cuda=values.get("cuda"))
    if found := _TOO_OLD.search(text):
        name = "C library" if found[1] == "GLIBC" else "C++ library"
        return LoadFailure(f"it needs {name} {found[2]}, which is newer than this system's", None, installed, True)
    if _FOREIGN_BINARY.search(text):
        return LoadFailure("it is built for another kind of machine", None, (), True)
    is_absent = text == "No module named 'llama_cpp'"
    return LoadFailure("it is not installed" if is_absent else one_line(text).rstrip("."), None, (), True)


def start_failure(status: ExitStatus | None, seconds: float, installed: tuple[str, ...]) -> LoadFailure:
    """Explain a trial start of llama.cpp that crashed, or that timed out and has no status.

    `installed` are the GPU backends of this build, or "cpu".
    """
    if status is None:
        is_cpu, driver = installed == ("cpu",), "The GPU's driver may hang: update it."
        reason = f"a trial start took longer than {seconds:g} seconds"
        return LoadFailure(reason, None if is_cpu else driver, installed, is_cpu)
    is_foreign = status.is_illegal_instruction
    reason = "it uses instructions that this CPU does not have" if is_foreign else f"a trial start {status.how}"
    return LoadFailure(reason, None, installed, True)


@dataclass(frozen=True, slots=True)
class Advice:
    """A better build, and the command that installs it.

    Attributes:
        reason: What the installed build lacks, as a sentence.
        notes: Requirements, as sentences.
        other: A second command, in case the first does not work.
        other_needs: Requirements of `other`, as the beginning of a sentence.
        urgent: False for integrated GPUs, whose gain is uncertain.
    """

    backend: str
    reason: str
    command: str
    notes: tuple[str, ...] = ()
    other: str | None = None
    other_needs: str | None = None
    urgent: bool = True


def advice(
    machine: Machine,
    build: BuildInfo | None,
    devices: Sequence[Device],
    here: Installation,
    failure: LoadFailure | None = None,
) -> Advice | None:
    """Return a better build for this machine, if any.

    Args:
        build: The installed build; None if it cannot be loaded, which `failure` explains.
        here: The environment in which the commands install.
    """
    if machine.translated:
        return None
    if failure is not None and here.library_folder is not None:
        reason = f"Use the installed llama.cpp instead of the one in {here.library_folder}:"
        return Advice("", f"{failure.fix} Or: {reason}" if failure.fix else reason, here.unset_command)
    found = _better_build(machine, build, devices, here, failure)
    packages = cuda_packages(failure.cuda) if failure is not None and failure.cuda is not None else ()
    if found is not None and here.library_folder is not None:
        found = replace(found, notes=(f"Also {here.unset_command}, which names another llama.cpp.", *found.notes))
    if not packages or found is None or all(gpu.vendor != "nvidia" for gpu in machine.gpus):
        return found
    return replace(
        found,
        backend=_title("cuda"),
        reason="Install the libraries:",
        command=here.add_command(*packages),
        other=found.command,
        other_needs="Or another build",
    )


def _better_build(
    machine: Machine,
    build: BuildInfo | None,
    devices: Sequence[Device],
    here: Installation,
    failure: LoadFailure | None,
) -> Advice | None:
    for gpu in sorted(machine.gpus, key=lambda g: (g.integrated and g.vendor != "apple", -(g.total_bytes or 0))):
        if build is not None and is_usable(gpu, devices, machine.gpus):
            vulkan = [BuildChoice("vulkan", wheel)] if (wheel := newest_wheel("vulkan", machine)) else []
            faster = [*vulkan, BuildChoice(_OWN_BACKEND.get(gpu.vendor, "vulkan"))]
            return _advice(faster, _SLOW_RAM, machine, here, urgent=False) if _lacks_avx2(build, machine) else None
        if build is not None and gpu.vendor == "apple" and _has_backend(build, "metal"):
            # Every build on macOS has Metal; another build would not find the GPU either.
            continue
        choices = choices_for(gpu, machine)
        if failure is not None:
            choices = sorted((c for c in choices if _survives(c, failure)), key=lambda c: c.wheel is None)
        if choices:
            urgent = not gpu.integrated or gpu.vendor == "apple" or build is None
            reason = _reason(gpu, build, choices[0].backend) if build is not None else _repair(failure)
            return _advice(choices, reason, machine, here, urgent=urgent)
    cpu = with_source("cpu", machine)
    if build is None:
        survivors = [choice for choice in cpu if failure is None or _survives(choice, failure)]
        return _advice(survivors or cpu[-1:], _repair(failure), machine, here)
    return _advice(cpu, _SLOW_RAM, machine, here) if _lacks_avx2(build, machine) else None


def repair_hint(machine: Machine, here: Installation, failure: LoadFailure) -> str:
    """Return in one line how to get a llama.cpp that runs on this machine."""
    found = advice(machine, None, (), here, failure)
    return f"{found.reason} {found.command}" if found is not None else failure.fix or "See ⟨doctor⟩."


def unused_gpu_hint(machine: Machine, devices: Sequence[Device], here: Installation) -> str | None:
    """Return a sentence with the command that makes an unused GPU usable, if any."""
    unused = missed(machine.gpus, devices)
    found = advice(replace(machine, gpus=tuple(unused)), None, (), here) if unused else None
    if found is None or found.backend == _title("cpu"):
        return None
    return f"For the {unused[0].name}, install another build: {found.command}"


def rpc_command(backends: Sequence[str], here: Installation) -> str:
    """Return the command that rebuilds llama.cpp with the same backends and RPC."""
    data = known_builds()
    present = [name for name, known in data["backends"].items() if set(known["names"]) & set(backends)]
    flags = " ".join([*(data["source"][name]["cmake"] for name in present if name != "cpu"), data["rpc"]["cmake"]])
    return here.build_command(data["package"], data["version"], flags)


def _lacks_avx2(build: BuildInfo, machine: Machine) -> bool:
    return bool(build.features) and "AVX2" in machine.features and "AVX2" not in build.features


def _survives(choice: BuildChoice, failure: LoadFailure) -> bool:
    return choice.backend not in failure.avoid or (choice.wheel is None and failure.can_compile)


def _repair(failure: LoadFailure | None) -> str:
    fix = failure.fix if failure is not None else None
    return f"{fix} Or install another build:" if fix else "Install a build that runs here:"


def is_usable(gpu: Gpu, devices: Sequence[Device], gpus: Sequence[Gpu] = ()) -> bool:
    """Return whether the installed build, with these devices, can use one of the machine's GPUs.

    Beside an integrated GPU of the same vendor, a device that shares RAM is not the discrete GPU.
    """
    beside = not gpu.integrated and any(other.integrated and other.vendor == gpu.vendor for other in gpus)
    kinds = ("gpu",) if beside else ("gpu", "igpu")
    own = known_builds()["backends"].get(_OWN_BACKEND.get(gpu.vendor, ""), {}).get("names", ())
    return any(
        device.kind in kinds
        and (device.backend in own or any(word in device.description.lower() for word in _VENDOR_WORDS[gpu.vendor]))
        for device in devices
    )


def missed(gpus: Sequence[Gpu], devices: Sequence[Device]) -> list[Gpu]:
    """Return the GPUs that the installed build cannot use, discrete GPUs first.

    If it uses a discrete GPU, none is missed; if it uses an integrated GPU, only discrete GPUs are.
    """
    kinds = {device.kind for device in devices}
    if "gpu" in kinds:
        return []
    candidates = [gpu for gpu in gpus if not (gpu.integrated and "igpu" in kinds)]
    return sorted((g for g in candidates if not is_usable(g, devices, gpus)), key=lambda gpu: gpu.integrated)


def _reason(gpu: Gpu, build: BuildInfo, backend: str) -> str:
    title = _title(backend)
    if _has_backend(build, backend):
        return f"This llama.cpp is built with {title}, but {title} finds no {gpu.name}."
    return f"This llama.cpp is built without {title} and cannot use the {gpu.name}."


def _has_backend(build: BuildInfo, backend: str) -> bool:
    return bool(set(build.backends) & set(known_builds()["backends"][backend]["names"]))


def _title(backend: str) -> str:
    return str(known_builds()["backends"][backend]["title"])


def _advice(
    choices: list[BuildChoice], reason: str, machine: Machine, here: Installation, *, urgent: bool = True
) -> Advice:
    best, second = choices[0], choices[1] if len(choices) > 1 else None
    notes = [note for note in (here.note, best.note) if note]
    if best.wheel is None:
        notes.append(f"Building it takes minutes and needs {_needs(best, machine)}.")
    if machine.system == "windows":
        notes.append(_ON_WINDOWS)
    other_needs = None
    if second is not None and second.wheel is None:
        other_needs = f"If there is no such wheel, build it; that needs {_needs(second, machine)}"
    elif second is not None:
        other_needs = f"With {_title(second.backend)} instead. {second.note or ''}".strip().removesuffix(".")
    return Advice(
        backend=_title(best.backend),
        reason=reason,
        command=_command(best, here),
        notes=tuple(notes),
        other=_command(second, here) if second is not None else None,
        other_needs=other_needs,
        urgent=urgent,
    )


def _needs(choice: BuildChoice, machine: Machine) -> str:
    data = known_builds()
    compiler = data["compilers"].get(machine.system, data["compilers"]["other"])
    return str(data["source"][choice.backend]["needs"]).format(compiler=compiler)


def _command(choice: BuildChoice, here: Installation) -> str:
    data = known_builds()
    package, version = data["package"], data["version"]
    if choice.wheel is None:
        return here.build_command(package, version, data["source"][choice.backend]["cmake"])
    return here.wheel_command(package, version, f"{data['index']}{choice.wheel['name']}", *choice.packages)
