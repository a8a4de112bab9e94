"""Which build of llama-cpp-python is right for a machine, and the command that installs it. Data: builds.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from app.hardware.gpu import version_key
from app.hardware.machine import Gpu, Machine

_VULKAN_WORDS = {
    "nvidia": ("nvidia", "geforce", "quadro", "tesla"),
    "amd": ("amd", "radeon"),
    "intel": ("intel", "arc"),
    "apple": ("apple",),
}
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


@dataclass(frozen=True, slots=True)
class _Choice:
    """A backend, ready-made as `wheel` or, without one, built here."""

    backend: str
    wheel: dict[str, Any] | None = None
    notes: tuple[str, ...] = ()


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
        if build is not None and is_usable(gpu, devices):
            return None
        choices = _choices(gpu, machine, python_version)
        if choices:
            urgent = not gpu.integrated or gpu.vendor == "apple" or build is None
            return _advise(choices, _lack(gpu, build, choices[0].backend), machine, install, urgent=urgent)
    lack = _processor_lack(machine, build)
    if not lack:
        return None
    ready = _wheel("cpu", machine, python_version)
    return _advise([_Choice("cpu"), *([_Choice("cpu", ready)] if ready else [])], lack, machine, install, urgent=True)


def rpc_command(backends: Sequence[str], system: str, install: str) -> str:
    """The command that builds llama.cpp anew with what it has now and with RPC, which no ready-made build has.

    Args:
        backends: Of the installed build.
        system: As `Machine.system` names it.
        install: As for `advice`.
    """
    data = _data()
    present = [name for name, known in data["backends"].items() if set(known["names"]) & set(backends)]
    flags = " ".join([*(data["source"][name]["cmake"] for name in present if name != "cpu"), data["rpc"]["cmake"]])
    return _from_source(flags, system, install)


def is_usable(gpu: Gpu, devices: Sequence[Usable]) -> bool:
    """Whether one of the library's devices stands for this vendor's graphics."""
    own = _data()["backends"].get(_OWN_BACKEND.get(gpu.vendor, ""), {}).get("names", ())
    return any(
        device.kind in ("gpu", "igpu")
        and (device.backend in own or any(w in device.description.lower() for w in _VULKAN_WORDS[gpu.vendor]))
        for device in devices
    )


def driver_cuda(gpu: Gpu) -> str:
    """The newest CUDA version that a card's driver takes; empty if it cannot be told."""
    if gpu.api:
        return gpu.api
    branch = version_key(gpu.driver)[:1]
    known: dict[str, str] = _data()["cuda_of_driver"]
    fitting = [cuda for least, cuda in known.items() if branch and int(least) <= branch[0]]
    return fitting[-1] if fitting else ""


@cache
def _data() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("builds.toml").read_text(encoding="utf-8"))


def _choices(gpu: Gpu, machine: Machine, python: str) -> list[_Choice]:
    """What would make this card usable, best first; empty if nothing would."""
    match gpu.vendor:
        case "nvidia":
            return _for_nvidia(gpu, machine, python)
        case "amd":
            return _for_amd(gpu, machine, python)
        case "intel" if machine.system != "darwin" and gpu.driver:
            return _vulkan(machine, python)
        case "apple" if machine.arch == "arm64":
            ready = _wheel("metal", machine, python)
            return [*([_Choice("metal", ready)] if ready else []), _Choice("metal")]
    return []


def _for_nvidia(gpu: Gpu, machine: Machine, python: str) -> list[_Choice]:
    driver = driver_cuda(gpu)
    if gpu.driver == "tegra":
        return [_Choice("cuda")]
    if not driver or machine.system == "darwin":
        return []
    installed = {key[0] for part in gpu.toolkit.split(",") if (key := version_key(part))}
    ready = _cuda_wheel(gpu, driver, installed, machine, python)
    cuda = [*([_Choice("cuda", ready)] if ready else []), _Choice("cuda")]
    if ready is not None and version_key(ready["version"])[0] not in installed:
        major = version_key(ready["version"])[0]
        note = f"It loads the libraries of the CUDA {major} toolkit, which is not installed here; install that first."
        if machine.wsl:
            note += " Inside WSL take the toolkit alone: the driver is that of Windows."
        cuda[0] = _Choice("cuda", ready, (note,))
        if machine.vulkan and not machine.wsl:
            # Vulkan comes with the driver: it works at once.
            return [_vulkan(machine, python)[0], *cuda]
    return cuda


def _cuda_wheel(gpu: Gpu, driver: str, installed: set[int], machine: Machine, python: str) -> dict[str, Any] | None:
    """The newest that the driver takes, of the installed toolkit's generation if there is one.

    A driver runs what was built with any release of its own generation (NVIDIA calls it minor version
    compatibility), so an old driver gets the oldest wheel of its generation rather than none.
    """
    wheels = [w for w in _data()["wheels"] if w["backend"] == "cuda" and _runs(w, machine, python)]
    wheels = [w for w in wheels if _has_compute(w, gpu.target)]
    newest = version_key(driver)
    fitting = [w for w in wheels if version_key(w["version"]) <= newest]
    fitting = fitting[::-1] + [w for w in wheels if w not in fitting and version_key(w["version"])[0] == newest[0]]
    same = [w for w in fitting if version_key(w["version"])[0] in installed]
    return next(iter(same or fitting), None)


def _has_compute(wheel: dict[str, Any], target: str) -> bool:
    least, most = (version_key(end) for end in wheel["targets"])
    wanted = version_key(target)
    return not wanted or (least <= wanted and (not most or wanted <= most))


def _for_amd(gpu: Gpu, machine: Machine, python: str) -> list[_Choice]:
    if machine.system == "darwin" or not gpu.driver or gpu.driver.startswith("radeon"):
        return []
    vulkan, ready = _vulkan(machine, python), _wheel("rocm", machine, python)
    if ready is None:
        return vulkan
    if not gpu.target:
        note = f"It is only for {', '.join(ready['targets'])}."
        return [vulkan[0], _Choice("rocm", ready, (note,))]
    wanted = version_key(ready.get("version", ""))[:1]
    installed = not wanted or any(version_key(part)[:1] == wanted for part in gpu.toolkit.split(","))
    return [_Choice("rocm", ready), vulkan[0]] if installed and gpu.target in ready["targets"] else vulkan


def _vulkan(machine: Machine, python: str) -> list[_Choice]:
    note = "It needs the Vulkan loader: on Debian and Ubuntu, apt install libvulkan1 mesa-vulkan-drivers."
    notes = (note,) if machine.system == "linux" and not machine.vulkan else ()
    ready = _wheel("vulkan", machine, python)
    return [*([_Choice("vulkan", ready, notes)] if ready else []), _Choice("vulkan", notes=notes)]


def _wheel(backend: str, machine: Machine, python: str) -> dict[str, Any] | None:
    return next((w for w in reversed(_data()["wheels"]) if w["backend"] == backend and _runs(w, machine, python)), None)


def _runs(wheel: dict[str, Any], machine: Machine, python: str) -> bool:
    on = f"{machine.system}-{machine.arch}" in wheel["platforms"]
    # A processor without them ends the program at the first batch. Where none is known, nothing is.
    lacks = machine.arch == "x86_64" and machine.features and set(wheel.get("features", ())) - set(machine.features)
    return on and not lacks and version_key(wheel["python"]) <= version_key(python)


def _lack(gpu: Gpu, build: Built | None, backend: str) -> str:
    if build is None:
        return "The installed llama.cpp cannot be loaded."
    present = set(build.backends) & set(_data()["backends"][backend]["names"])
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
    return str(_data()["backends"][backend]["title"])


def _advise(choices: list[_Choice], lack: str, machine: Machine, install: str, *, urgent: bool) -> Advice:
    best, second = choices[0], choices[1] if len(choices) > 1 else None
    notes = best.notes
    if best.wheel is None:
        notes = (*notes, f"Building it takes minutes and needs {_data()['source'][best.backend]['needs']}.")
    return Advice(
        backend=_title(best.backend),
        reason=lack,
        command=_command(best, machine, install),
        notes=notes,
        other=_command(second, machine, install) if second else "",
        other_needs=_when(best, second) if second else "",
        urgent=urgent,
    )


def _when(best: _Choice, second: _Choice) -> str:
    if second.wheel is None:
        return f"If there is no such wheel, build it; that needs {_data()['source'][second.backend]['needs']}"
    if second.backend == best.backend:
        return "Without a compiler, a build for any processor"
    return f"With {_title(second.backend)} instead. {' '.join(second.notes)}".strip().removesuffix(".")


def _command(choice: _Choice, machine: Machine, install: str) -> str:
    data = _data()
    package = data["package"]
    what = f"{package}=={data['version']}"
    if choice.wheel is not None:
        # Without --only-binary pip would build the CPU version from source where the index lacks this release.
        source = f"--only-binary {package} --extra-index-url {data['index']}{choice.wheel['name']}"
        return f"{install} --force-reinstall --no-deps {source} {what}"
    return _from_source(data["source"][choice.backend]["cmake"], machine.system, install)


def _from_source(cmake: str, system: str, install: str) -> str:
    package, version = _data()["package"], _data()["version"]
    # pip keeps what it built before, whatever the CMAKE_ARGS were.
    whole = f"{install} --force-reinstall --no-deps --no-cache-dir --no-binary {package} {package}=={version}"
    return f'$env:CMAKE_ARGS = "{cmake}"; {whole}' if system == "windows" else f'CMAKE_ARGS="{cmake}" {whole}'
