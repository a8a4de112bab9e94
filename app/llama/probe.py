"""List devices and measure throughput in a child process, which a driver may crash or hang."""

from __future__ import annotations

import math
from dataclasses import dataclass

from app.core.errors import AppError, ModelLoadError
from app.hardware.devices import BuildInfo, Device
from app.llama.child import ChildError, ask


def probe(ram_available: int | None = None, seconds: float = 60.0) -> tuple[BuildInfo, tuple[Device, ...]]:
    """Return `app.llama.devices.build` and `devices` of a child process.

    Args:
        ram_available: As for `devices`.
        seconds: Time limit.

    Raises:
        ModelLoadError: llama.cpp cannot be loaded, or did not survive looking at its devices.
    """
    try:
        answer = ask("devices.report", ram_available, seconds=seconds)
    except ChildError as error:
        raise ModelLoadError(
            f"llama.cpp could not list its devices: the process that asked {error}.",
            "A graphics driver may be broken or hang; update it, or install another build of llama-cpp-python.",
        ) from error
    about = answer["build"]
    for name in ("backends", "features"):
        about[name] = tuple(about[name])
    return BuildInfo(**about), tuple(Device(**device) for device in answer["devices"])


@dataclass(frozen=True, slots=True)
class Throughput:
    """Measured speed of computing with weights.

    Attributes:
        bytes_per_s: Bytes of 4-bit weights per second, best of many runs.
        alone: Whether no other program used the CPU meanwhile; otherwise the device may be faster.
    """

    bytes_per_s: float
    alone: bool = True


def probe_throughput(n_threads: int) -> Throughput | None:
    """Measure the throughput of the device that layers go to first, in a child process.

    Args:
        n_threads: CPU threads, if there is no faster device.

    Returns:
        None if it cannot be measured: no memory, or a driver that crashes or hangs.
    """
    try:
        found = ask("throughput.throughput", n_threads, seconds=20.0)
    except (AppError, ChildError):
        return None
    if found is None:
        return None
    bytes_per_s, alone = found
    return Throughput(bytes_per_s, alone) if math.isfinite(bytes_per_s) and bytes_per_s > 0 else None
