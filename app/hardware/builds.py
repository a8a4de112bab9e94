"""Which build of llama-cpp-python is right for a machine, why, and the command that installs it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from app.hardware.build_choices import Choice, choices_for, known_builds, ready_made
from app.hardware.gpu import Gpu
from app.hardware.machine import Machine

_VULKAN_WORDS = {
    "nvidia": ("nvidia", "geforce", "quadro", "tesla"),
    "amd": ("amd", "radeon"),
    "intel": ("intel", "arc"),
    "apple": ("apple",),
}
_ON_WINDOWS = "Type it in PowerShell, and end every Tandem first: Windows replaces no file that is in use."
_OWN_BACKEND = {"nvidia": "cuda", "amd": "rocm", "apple": "metal"}


class Built(Protocol):
    """The installed build, as the library describes itself."""

    @property
    def backends(self) -> tuple[str, ...]: ...

    @property
    def features(self) -> tuple[str, ...]: ...


class Usable(Protocol):
    """A device that the installed build can use."""

    @property
    def kind(self) -> str: ...

    @property
    def backend(self) -> str: ...

    @property
    def description(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Advice:
    """A better build, and how to get it.

    Attributes:
        backend: Its name, such as "CUDA".
        reason: What the installed build lacks, as a sentence.
        command: What to type, whole.
        notes: What must be there before, as sentences.
        other: A second command, for where the first has no build; empty if there is none.
        other_needs: What `other` needs or why one would take it, as the beginning of a sentence.
        urgent: False where the gain is uncertain, as for graphics inside the processor.
    """

    backend: str
    reason: str
    command: str
    notes: tuple[str, ...] = ()
    other: str = ""
    other_needs: str = ""
    urgent: bool = True


def advice(
    machine: Machine,
    build: Built | None,
    devices: Sequence[Usable],
    python_version: str,
    *,
    install: str = "python -m pip install",
) -> Advice | None:
    """The build that this machine should have; None where the installed one is right or none would be better.

    Args:
        machine: What there is.
        build: What is installed; None if it cannot be loaded.
        devices: What it can use.
        python_version: Such as "3.11".
        install: The beginning of a command that installs into the Python that Tandem runs in.
    """
    if machine.translated:
        return None
    for gpu in sorted(machine.gpus, key=lambda g: (g.integrated and g.vendor != "apple", -(g.total_bytes or 0))):
        if build is not None and is_usable(gpu, devices, machine.gpus):
            return None
        choices = choices_for(gpu, machine, python_version)
        if choices:
            urgent = not gpu.integrated or gpu.vendor == "apple" or build is None
            return _advise(choices, _lack(gpu, build, choices[0].backend), machine, install, urgent=urgent)
    lack = _processor_lack(machine, build)
    if not lack:
        return None
    ready = ready_made("cpu", machine, python_version)
    return _advise([Choice("cpu"), *([Choice("cpu", ready)] if ready else [])], lack, machine, install, urgent=True)


def rpc_command(backends: Sequence[str], system: str, install: str) -> str:
    """The command that builds llama.cpp anew with what it has now and with RPC, which no ready-made build has.

    Args:
        backends: Of the installed build.
        system: As `Machine.system` names it.
        install: As for `advice`.
    """
    data = known_builds()
    present = [name for name, known in data["backends"].items() if set(known["names"]) & set(backends)]
    flags = " ".join([*(data["source"][name]["cmake"] for name in present if name != "cpu"), data["rpc"]["cmake"]])
    return _from_source(flags, system, install)


def is_usable(gpu: Gpu, devices: Sequence[Usable], gpus: Sequence[Gpu] = ()) -> bool:
    """Whether one of the library's devices stands for this vendor's graphics.

    Args:
        gpu: The one in question.
        devices: What the installed build lists.
        gpus: All of the machine. Where one of the same vendor is inside the processor, a device that shares the
            processor's memory is that one and no card.
    """
    beside = not gpu.integrated and any(other.integrated and other.vendor == gpu.vendor for other in gpus)
    own = known_builds()["backends"].get(_OWN_BACKEND.get(gpu.vendor, ""), {}).get("names", ())
    return any(
        device.kind in (("gpu",) if beside else ("gpu", "igpu"))
        and (device.backend in own or any(w in device.description.lower() for w in _VULKAN_WORDS[gpu.vendor]))
        for device in devices
    )


def missed(gpus: Sequence[Gpu], devices: Sequence[Usable]) -> list[Gpu]:
    """The graphics that the installed build leaves unused, cards first; none where it uses a card.

    Beside graphics inside the processor that it uses, only a card is missed.
    """
    kinds = {device.kind for device in devices}
    if "gpu" in kinds:
        return []
    wanted = [gpu for gpu in gpus if not (gpu.integrated and "igpu" in kinds)]
    return sorted((g for g in wanted if not is_usable(g, devices, gpus)), key=lambda gpu: gpu.integrated)


def _lack(gpu: Gpu, build: Built | None, backend: str) -> str:
    if build is None:
        return "The installed llama.cpp cannot be loaded."
    present = set(build.backends) & set(known_builds()["backends"][backend]["names"])
    if present:
        return f"This llama.cpp is built with {_title(backend)}, but {_title(backend)} finds no {gpu.name}."
    return f"This llama.cpp is built without {_title(backend)} and cannot use the {gpu.name}."


def _processor_lack(machine: Machine, build: Built | None) -> str:
    if build is None:
        return "The installed llama.cpp cannot be loaded."
    if build.features and "AVX2" in machine.features and "AVX2" not in build.features:
        return "This llama.cpp is built for any processor and leaves AVX2 of this one unused."
    return ""


def _title(backend: str) -> str:
    return str(known_builds()["backends"][backend]["title"])


def _advise(choices: list[Choice], lack: str, machine: Machine, install: str, *, urgent: bool) -> Advice:
    best, second = choices[0], choices[1] if len(choices) > 1 else None
    notes = best.notes
    if best.wheel is None:
        notes = (*notes, f"Building it takes minutes and needs {_needs(best, machine)}.")
    if machine.system == "windows":
        notes = (*notes, _ON_WINDOWS)
    return Advice(
        backend=_title(best.backend),
        reason=lack,
        command=_command(best, machine, install),
        notes=notes,
        other=_command(second, machine, install) if second else "",
        other_needs=_when(best, second, machine) if second else "",
        urgent=urgent,
    )


def _needs(choice: Choice, machine: Machine) -> str:
    data = known_builds()
    compiler = data["compilers"].get(machine.system, data["compilers"]["other"])
    return str(data["source"][choice.backend]["needs"]).format(compiler=compiler)


def _when(best: Choice, second: Choice, machine: Machine) -> str:
    if second.wheel is None:
        return f"If there is no such wheel, build it; that needs {_needs(second, machine)}"
    if second.backend == best.backend:
        return "Without a compiler, a build for any processor"
    return f"With {_title(second.backend)} instead. {' '.join(second.notes)}".strip().removesuffix(".")


def _command(choice: Choice, machine: Machine, install: str) -> str:
    data = known_builds()
    package = data["package"]
    what = f"{package}=={data['version']}"
    if choice.wheel is not None:
        # Without --only-binary pip would build the CPU version from source where the index lacks this release.
        source = f"--only-binary {package} --extra-index-url {data['index']}{choice.wheel['name']}"
        return f"{install} --force-reinstall --no-deps {source} {what}"
    return _from_source(data["source"][choice.backend]["cmake"], machine.system, install)


def _from_source(cmake: str, system: str, install: str) -> str:
    package, version = known_builds()["package"], known_builds()["version"]
    # pip keeps what it built before, whatever the CMAKE_ARGS were.
    whole = f"{install} --force-reinstall --no-deps --no-cache-dir --no-binary {package} {package}=={version}"
    return f'$env:CMAKE_ARGS = "{cmake}"; {whole}' if system == "windows" else f'CMAKE_ARGS="{cmake}" {whole}'
