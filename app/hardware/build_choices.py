"""The builds of llama-cpp-python that would use a GPU on a machine, best first.

Data: builds.toml.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from app.hardware.gpus import Gpu, version_key
from app.hardware.machine import Machine

_NO_LOADER = "It needs the Vulkan loader. On Debian and Ubuntu: apt install libvulkan1 mesa-vulkan-drivers."


@dataclass(frozen=True, slots=True)
class BuildChoice:
    """A backend in builds.toml with notes and required packages; compiled here if `wheel` is None."""

    backend: str
    wheel: dict[str, Any] | None = None
    note: str | None = None
    packages: tuple[str, ...] = ()


@cache
def known_builds() -> dict[str, Any]:
    """Read builds.toml: wheels, backends, and how to build them."""
    return tomllib.loads(Path(__file__).with_name("builds.toml").read_text(encoding="utf-8"))


def choices_for(gpu: Gpu, machine: Machine) -> list[BuildChoice]:
    """Return the builds that would use this GPU, best first."""
    if machine.system == "darwin":
        return with_source("metal", machine) if gpu.vendor == "apple" else []
    if not gpu.has_driver:
        return []
    vulkan = with_source("vulkan", machine, None if machine.vulkan else _NO_LOADER)
    if gpu.vendor == "nvidia" and gpu.api:
        return _for_nvidia(gpu, machine, vulkan)
    if gpu.vendor == "amd" and (rocm := newest_wheel("rocm", machine)) is not None:
        return _for_amd(gpu, rocm, vulkan)
    return vulkan


def _for_amd(gpu: Gpu, rocm: dict[str, Any], vulkan: list[BuildChoice]) -> list[BuildChoice]:
    note = f"It is only for {', '.join(rocm['targets'])}, and slow with layers or experts in RAM."
    choice = BuildChoice("rocm", rocm, note)
    # The wheel for Windows contains AMD's libraries.
    needed = version_key(rocm.get("version", ""))[:1]
    if not needed:
        return [vulkan[0], choice]
    return [choice, vulkan[0]] if needed == version_key(gpu.toolkit or "")[:1] else vulkan


def _for_nvidia(gpu: Gpu, machine: Machine, vulkan: list[BuildChoice]) -> list[BuildChoice]:
    source = BuildChoice("cuda")
    # Vulkan comes with the driver, except in WSL, and needs no libraries.
    at_once = vulkan[:1] if machine.vulkan and not machine.wsl and vulkan[0].wheel is not None else []
    installed = {key[0] for part in (gpu.toolkit or "").split(",") if (key := version_key(part))}
    wheel = _cuda_wheel(gpu, installed, machine)
    if wheel is None:
        return [*at_once, source]
    major = version_key(wheel["version"])[0]
    # Windows installs CUDA 13's libraries where llama-cpp-python does not look.
    if major in installed and not (machine.system == "windows" and major >= 13):
        return [BuildChoice("cuda", wheel), source, *at_once]
    packages = cuda_packages(major)
    note = None if packages else f"It needs the libraries of the CUDA {major} toolkit. Install that first."
    return [*at_once, BuildChoice("cuda", wheel, note, packages), source]


def cuda_packages(major: int | str) -> tuple[str, ...]:
    """Return the packages with the libraries of a major version of CUDA, if any."""
    return tuple(known_builds()["cuda_packages"].get(str(major), {}).get("packages", ()))


def _cuda_wheel(gpu: Gpu, installed: set[int], machine: Machine) -> dict[str, Any] | None:
    """Return the newest wheel that the driver supports, for an installed toolkit if there is one.

    A driver runs builds for any release of its major version (NVIDIA: minor version compatibility), so an old driver
    gets the oldest wheel of its major version rather than no wheel.
    """
    wheels = [w for w in known_builds()["wheels"] if w["backend"] == "cuda" and _runs(w, machine)]
    wheels = [w for w in wheels if _has_compute(w, gpu.target)]
    newest = version_key(gpu.api or "")
    fitting = [w for w in reversed(wheels) if version_key(w["version"]) <= newest]
    fitting += [w for w in wheels if w not in fitting and version_key(w["version"])[0] == newest[0]]
    loadable = [w for w in fitting if version_key(w["version"])[0] in installed]
    return next(iter(loadable or fitting), None)


def _has_compute(wheel: dict[str, Any], target: str | None) -> bool:
    least, most = (version_key(end) for end in wheel["targets"])
    capability = version_key(target or "")
    return not capability or (least <= capability and (not most or capability <= most))


def with_source(backend: str, machine: Machine, note: str | None = None) -> list[BuildChoice]:
    """Return the wheel with a backend, if there is one, and the build from source."""
    wheel = newest_wheel(backend, machine)
    return [*([BuildChoice(backend, wheel, note)] if wheel else []), BuildChoice(backend, note=note)]


def newest_wheel(backend: str, machine: Machine) -> dict[str, Any] | None:
    """Return the newest wheel with a backend that runs on a machine, if any."""
    wheels = reversed(known_builds()["wheels"])
    return next((w for w in wheels if w["backend"] == backend and _runs(w, machine)), None)


def _runs(wheel: dict[str, Any], machine: Machine) -> bool:
    on = f"{machine.system}-{machine.arch}" in wheel["platforms"]
    # A CPU without a feature of the wheel crashes at the first batch.
    missing = machine.features and set(wheel.get("features", ())) - set(machine.features)
    is_old = machine.glibc is not None and machine.glibc < version_key(wheel.get("glibc", ""))
    return on and not missing and not is_old
