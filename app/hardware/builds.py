"""The build of llama-cpp-python that a machine needs, why, and the command that installs it.

Data: builds.toml.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from app.hardware.gpus import Gpu, version_key
from app.hardware.machine import Machine


@dataclass(frozen=True, slots=True)
class Choice:
    """A backend, ready-made as `wheel` or, without one, built here.

    Attributes:
        backend: As builds.toml names it.
        wheel: Its entry there.
        notes: What must be there before, as sentences.
    """

    backend: str
    wheel: dict[str, Any] | None = None
    notes: tuple[str, ...] = ()


@cache
def known_builds() -> dict[str, Any]:
    """Read builds.toml: wheels, backends, and how to build them."""
    return tomllib.loads(Path(__file__).with_name("builds.toml").read_text(encoding="utf-8"))


def choices_for(gpu: Gpu, machine: Machine, python: str) -> list[Choice]:
    """Return the builds that would use this GPU, best first."""
    match gpu.vendor:
        case "nvidia":
            return _for_nvidia(gpu, machine, python)
        case "amd":
            return _for_amd(gpu, machine, python)
        case "intel" if machine.system != "darwin" and gpu.driver:
            return _vulkan(machine, python)
        case "apple" if machine.arch == "arm64":
            ready = ready_made("metal", machine, python)
            return [*([Choice("metal", ready)] if ready else []), Choice("metal")]
    return []


def driver_cuda(gpu: Gpu) -> str:
    """The newest CUDA version that a card's driver takes; empty if it cannot be told."""
    if gpu.api:
        return gpu.api
    branch = version_key(gpu.driver)[:1]
    known: dict[str, str] = known_builds()["cuda_of_driver"]
    fitting = [cuda for least, cuda in known.items() if branch and int(least) <= branch[0]]
    return fitting[-1] if fitting else ""


def _for_nvidia(gpu: Gpu, machine: Machine, python: str) -> list[Choice]:
    driver = driver_cuda(gpu)
    if gpu.driver == "tegra":
        return [Choice("cuda")]
    if not driver or machine.system == "darwin":
        return []
    installed = {key[0] for part in gpu.toolkit.split(",") if (key := version_key(part))}
    ready = _cuda_wheel(gpu, driver, installed, machine, python)
    cuda = [*([Choice("cuda", ready)] if ready else []), Choice("cuda")]
    if ready is not None and version_key(ready["version"])[0] not in installed:
        major = version_key(ready["version"])[0]
        note = f"It needs the libraries of the CUDA {major} toolkit. Install that first."
        if machine.wsl:
            note += " In WSL, install the toolkit without a driver: Windows provides it."
        cuda[0] = Choice("cuda", ready, (note,))
        if machine.vulkan and not machine.wsl:
            # Vulkan comes with the driver: it works at once.
            return [_vulkan(machine, python)[0], *cuda]
    return cuda


def _cuda_wheel(gpu: Gpu, driver: str, installed: set[int], machine: Machine, python: str) -> dict[str, Any] | None:
    """The newest that the driver takes, of the installed toolkit's generation if there is one.

    A driver runs what was built with any release of its own generation (NVIDIA calls it minor version
    compatibility), so an old driver gets the oldest wheel of its generation rather than none.
    """
    wheels = [w for w in known_builds()["wheels"] if w["backend"] == "cuda" and _runs(w, machine, python)]
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


def _for_amd(gpu: Gpu, machine: Machine, python: str) -> list[Choice]:
    if machine.system == "darwin" or not gpu.driver or gpu.driver.startswith("radeon"):
        return []
    vulkan, ready = _vulkan(machine, python), ready_made("rocm", machine, python)
    if ready is None:
        return vulkan
    if not gpu.target:
        note = f"It is only for {', '.join(ready['targets'])}."
        return [vulkan[0], Choice("rocm", ready, (note,))]
    wanted = version_key(ready.get("version", ""))[:1]
    installed = not wanted or any(version_key(part)[:1] == wanted for part in gpu.toolkit.split(","))
    return [Choice("rocm", ready), vulkan[0]] if installed and gpu.target in ready["targets"] else vulkan


def _vulkan(machine: Machine, python: str) -> list[Choice]:
    note = "It needs the Vulkan loader. On Debian and Ubuntu: apt install libvulkan1 mesa-vulkan-drivers."
    notes = (note,) if machine.system == "linux" and not machine.vulkan else ()
    ready = ready_made("vulkan", machine, python)
    return [*([Choice("vulkan", ready, notes)] if ready else []), Choice("vulkan", notes=notes)]


def ready_made(backend: str, machine: Machine, python: str) -> dict[str, Any] | None:
    """The newest wheel with a backend that runs on a machine; None if there is none."""
    wheels = reversed(known_builds()["wheels"])
    return next((w for w in wheels if w["backend"] == backend and _runs(w, machine, python)), None)


def _runs(wheel: dict[str, Any], machine: Machine, python: str) -> bool:
    on = f"{machine.system}-{machine.arch}" in wheel["platforms"]
    # A processor without them ends the program at the first batch. Where none is known, nothing is.
    lacks = machine.arch == "x86_64" and machine.features and set(wheel.get("features", ())) - set(machine.features)
    return on and not lacks and version_key(wheel["python"]) <= version_key(python)


_VULKAN_WORDS = {
    "nvidia": ("nvidia", "geforce", "quadro", "tesla"),
    "amd": ("amd", "radeon"),
    "intel": ("intel", "arc"),
    "apple": ("apple",),
}
_ON_WINDOWS = "Run it in PowerShell after closing Tandem: Windows cannot replace files in use."
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
    """Return a better build for this machine, or None.

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
    """Return the command that rebuilds llama.cpp with its backends and RPC.

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
    """Return whether the installed build can use a GPU.

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
    """Return the GPUs that the installed build cannot use, discrete ones first.

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
        return "This llama.cpp is built for any CPU and does not use AVX2 of this one."
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
        return "Without a compiler, a build for any CPU"
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
