"""The build of llama-cpp-python that a machine needs, and the command that installs it.

Data: builds.toml.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from app.hardware.devices import BuildInfo, Device
from app.hardware.gpus import Gpu, version_key
from app.hardware.machine import Machine

_OWN_BACKEND = {"nvidia": "cuda", "amd": "rocm", "apple": "metal"}
# Words in a device's description under Vulkan.
_VENDOR_WORDS = {
    "nvidia": ("nvidia", "geforce", "quadro", "tesla"),
    "amd": ("amd", "radeon"),
    "intel": ("intel", "arc"),
    "apple": ("apple",),
}
_ON_WINDOWS = "Run it in PowerShell after closing Tandem: Windows cannot replace files in use."
_NO_LOADER = "It needs the Vulkan loader. On Debian and Ubuntu: apt install libvulkan1 mesa-vulkan-drivers."
_NOT_LOADED = "The installed llama.cpp cannot be loaded."


@dataclass(frozen=True, slots=True)
class Advice:
    """A better build, and the command that installs it.

    Attributes:
        reason: What the installed build lacks, as a sentence.
        notes: Requirements, as sentences.
        other: A second command, in case the first does not work; "" without one.
        other_needs: What `other` needs, as the beginning of a sentence.
        urgent: False for integrated GPUs, whose gain is uncertain.
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
    """A backend of builds.toml, as a wheel or, without one, built here; with its requirement as a sentence."""

    backend: str
    wheel: dict[str, Any] | None = None
    note: str = ""


@cache
def known_builds() -> dict[str, Any]:
    """Read builds.toml: wheels, backends, and how to build them."""
    return tomllib.loads(Path(__file__).with_name("builds.toml").read_text(encoding="utf-8"))


def advice(
    machine: Machine,
    build: BuildInfo | None,
    devices: Sequence[Device],
    python: str,
    *,
    install: str = "python -m pip install",
) -> Advice | None:
    """Return a better build for this machine and version of Python, or None.

    The installed build is None if it cannot be loaded. `install` begins a command that installs into the Python that
    Tandem runs in.
    """
    if machine.translated:
        return None
    for gpu in sorted(machine.gpus, key=lambda g: (g.integrated and g.vendor != "apple", -(g.total_bytes or 0))):
        if build is not None and is_usable(gpu, devices, machine.gpus):
            return None
        choices = _choices(gpu, machine, python)
        if choices:
            urgent = not gpu.integrated or gpu.vendor == "apple" or build is None
            return _advice(choices, _reason(gpu, build, choices[0].backend), machine, install, urgent=urgent)
    if build is None:
        return _advice(_with_source("cpu", machine, python), _NOT_LOADED, machine, install)
    if build.features and "AVX2" in machine.features and "AVX2" not in build.features:
        return _advice(_with_source("cpu", machine, python), "This llama.cpp does not use AVX2.", machine, install)
    return None


def rpc_command(backends: Sequence[str], system: str, install: str) -> str:
    """Return the command that rebuilds llama.cpp with the same backends and RPC; `install` as for `advice`."""
    data = known_builds()
    present = [name for name, known in data["backends"].items() if set(known["names"]) & set(backends)]
    flags = " ".join([*(data["source"][name]["cmake"] for name in present if name != "cpu"), data["rpc"]["cmake"]])
    return _source_command(flags, system, install)


def is_usable(gpu: Gpu, devices: Sequence[Device], gpus: Sequence[Gpu] = ()) -> bool:
    """Return whether the installed build, with these devices, can use one of the machine's GPUs.

    Beside an integrated GPU of the same vendor, a device that shares RAM is not the discrete one.
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
    """Return the GPUs that the installed build cannot use, discrete ones first.

    If it uses a discrete GPU, none is missed; if it uses an integrated one, only discrete ones are.
    """
    kinds = {device.kind for device in devices}
    if "gpu" in kinds:
        return []
    candidates = [gpu for gpu in gpus if not (gpu.integrated and "igpu" in kinds)]
    return sorted((g for g in candidates if not is_usable(g, devices, gpus)), key=lambda gpu: gpu.integrated)


def _choices(gpu: Gpu, machine: Machine, python: str) -> list[_Choice]:
    """Return the builds that would use this GPU, best first."""
    if machine.system == "darwin":
        return _with_source("metal", machine, python) if gpu.vendor == "apple" else []
    if not gpu.driver or gpu.driver in ("nouveau", "radeon"):
        return []
    vulkan = _with_source("vulkan", machine, python, "" if machine.vulkan else _NO_LOADER)
    if gpu.vendor == "nvidia" and gpu.api:
        return _for_nvidia(gpu, machine, python, vulkan)
    if gpu.vendor == "amd" and (rocm := _wheel("rocm", machine, python)) is not None:
        return _for_amd(gpu, rocm, vulkan)
    return vulkan


def _for_amd(gpu: Gpu, rocm: dict[str, Any], vulkan: list[_Choice]) -> list[_Choice]:
    choice = _Choice("rocm", rocm, f"It is only for {', '.join(rocm['targets'])}.")
    # The wheel for Windows contains AMD's libraries.
    needed = version_key(rocm.get("version", ""))[:1]
    if not needed:
        return [vulkan[0], choice]
    return [choice, vulkan[0]] if needed == version_key(gpu.toolkit)[:1] else vulkan


def _for_nvidia(gpu: Gpu, machine: Machine, python: str, vulkan: list[_Choice]) -> list[_Choice]:
    source = _Choice("cuda")
    installed = {key[0] for part in gpu.toolkit.split(",") if (key := version_key(part))}
    wheel = _cuda_wheel(gpu, installed, machine, python)
    if wheel is None:
        return [source]
    major = version_key(wheel["version"])[0]
    if major in installed:
        return [_Choice("cuda", wheel), source]
    note = f"It needs the libraries of the CUDA {major} toolkit. Install that first."
    if machine.wsl:
        note += " In WSL, install the toolkit without a driver: Windows provides it."
        return [_Choice("cuda", wheel, note), source]
    cuda = [_Choice("cuda", wheel, note), source]
    # Vulkan comes with the driver and works at once.
    return [vulkan[0], *cuda] if machine.vulkan else cuda


def _cuda_wheel(gpu: Gpu, installed: set[int], machine: Machine, python: str) -> dict[str, Any] | None:
    """Return the newest wheel that the driver supports, for an installed toolkit if there is one.

    A driver runs builds for any release of its major version (NVIDIA: minor version compatibility), so an old driver
    gets the oldest wheel of its major version rather than none.
    """
    wheels = [w for w in known_builds()["wheels"] if w["backend"] == "cuda" and _runs(w, machine, python)]
    wheels = [w for w in wheels if _has_compute(w, gpu.target)]
    newest = version_key(gpu.api)
    fitting = [w for w in reversed(wheels) if version_key(w["version"]) <= newest]
    fitting += [w for w in wheels if w not in fitting and version_key(w["version"])[0] == newest[0]]
    loadable = [w for w in fitting if version_key(w["version"])[0] in installed]
    return next(iter(loadable or fitting), None)


def _has_compute(wheel: dict[str, Any], target: str) -> bool:
    least, most = (version_key(end) for end in wheel["targets"])
    capability = version_key(target)
    return not capability or (least <= capability and (not most or capability <= most))


def _with_source(backend: str, machine: Machine, python: str, note: str = "") -> list[_Choice]:
    """Return the wheel with a backend, if there is one, and the build from source."""
    wheel = _wheel(backend, machine, python)
    return [*([_Choice(backend, wheel, note)] if wheel else []), _Choice(backend, note=note)]


def _wheel(backend: str, machine: Machine, python: str) -> dict[str, Any] | None:
    """Return the newest wheel with a backend that runs on a machine; None without one."""
    wheels = reversed(known_builds()["wheels"])
    return next((w for w in wheels if w["backend"] == backend and _runs(w, machine, python)), None)


def _runs(wheel: dict[str, Any], machine: Machine, python: str) -> bool:
    on = f"{machine.system}-{machine.arch}" in wheel["platforms"]
    # A CPU without a feature of the wheel crashes at the first batch.
    missing = machine.features and set(wheel.get("features", ())) - set(machine.features)
    return on and not missing and version_key(wheel["python"]) <= version_key(python)


def _reason(gpu: Gpu, build: BuildInfo | None, backend: str) -> str:
    if build is None:
        return _NOT_LOADED
    title = _title(backend)
    if set(build.backends) & set(known_builds()["backends"][backend]["names"]):
        return f"This llama.cpp is built with {title}, but {title} finds no {gpu.name}."
    return f"This llama.cpp is built without {title} and cannot use the {gpu.name}."


def _title(backend: str) -> str:
    return str(known_builds()["backends"][backend]["title"])


def _advice(choices: list[_Choice], reason: str, machine: Machine, install: str, *, urgent: bool = True) -> Advice:
    best, second = choices[0], choices[1] if len(choices) > 1 else None
    notes = [best.note] if best.note else []
    if best.wheel is None:
        notes.append(f"Building it takes minutes and needs {_needs(best, machine)}.")
    if machine.system == "windows":
        notes.append(_ON_WINDOWS)
    other_needs = ""
    if second is not None and second.wheel is None:
        other_needs = f"If there is no such wheel, build it; that needs {_needs(second, machine)}"
    elif second is not None:
        other_needs = f"With {_title(second.backend)} instead. {second.note}".strip().removesuffix(".")
    return Advice(
        backend=_title(best.backend),
        reason=reason,
        command=_command(best, machine, install),
        notes=tuple(notes),
        other=_command(second, machine, install) if second is not None else "",
        other_needs=other_needs,
        urgent=urgent,
    )


def _needs(choice: _Choice, machine: Machine) -> str:
    data = known_builds()
    compiler = data["compilers"].get(machine.system, data["compilers"]["other"])
    return str(data["source"][choice.backend]["needs"]).format(compiler=compiler)


def _command(choice: _Choice, machine: Machine, install: str) -> str:
    data = known_builds()
    package = data["package"]
    if choice.wheel is None:
        return _source_command(data["source"][choice.backend]["cmake"], machine.system, install)
    # Without --only-binary pip would build the CPU version from source where the index lacks this release.
    source = f"--only-binary {package} --extra-index-url {data['index']}{choice.wheel['name']}"
    return f"{install} --force-reinstall --no-deps {source} {package}=={data['version']}"


def _source_command(cmake: str, system: str, install: str) -> str:
    package, version = known_builds()["package"], known_builds()["version"]
    # pip reuses an earlier build, whatever its CMAKE_ARGS were.
    command = f"{install} --force-reinstall --no-deps --no-cache-dir --no-binary {package} {package}=={version}"
    return f'$env:CMAKE_ARGS = "{cmake}"; {command}' if system == "windows" else f'CMAKE_ARGS="{cmake}" {command}'
