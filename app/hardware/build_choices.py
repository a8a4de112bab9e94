"""What there is to install: the backends of llama-cpp-python that would make a card usable, ready-made or built here.

Data: builds.toml.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from app.hardware.gpu import Gpu, version_key
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
    """What builds.toml says: wheels, backends, and what building them takes."""
    return tomllib.loads(Path(__file__).with_name("builds.toml").read_text(encoding="utf-8"))


def choices_for(gpu: Gpu, machine: Machine, python: str) -> list[Choice]:
    """What would make this card usable, best first; empty if nothing would."""
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
        note = f"It loads the libraries of the CUDA {major} toolkit, which is not installed here; install that first."
        if machine.wsl:
            note += " Inside WSL take the toolkit alone: the driver is that of Windows."
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
    note = "It needs the Vulkan loader: on Debian and Ubuntu, apt install libvulkan1 mesa-vulkan-drivers."
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
