"""Devices and build of the installed llama.cpp, as listed by ggml."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

Kind = Literal["cpu", "gpu", "igpu", "accel", "software"]
"""Kind of a device: "accel" helps the CPU, "software" is a software renderer on the CPU."""
_GPU_RESERVE = 768 << 20
"""Memory left free on a GPU: the driver's context and kernels take some hundred MiB when the first model is loaded."""
_RAM_SHARE = 0.9
"""Share of the free RAM for models."""
_FAST_INTEGRATED_VENDOR = "Apple"
"""Vendor whose integrated GPUs are as fast as discrete GPUs."""


@dataclass(frozen=True, slots=True)
class Device:
    """A device that can hold and compute layers.

    Attributes:
        name: llama.cpp's name, such as "CUDA0".
        kind: "gpu" has its own memory, "igpu" shares RAM, "software" is used only if named.
        backend: Backend such as "CUDA"; a model is only split over devices of one backend.
        free_bytes: Free memory; for the CPU, what is available without swapping.
        description: Name such as "NVIDIA GeForce RTX 4090".
        total_bytes: Its memory; 0 if unknown.
    """

    name: str
    kind: Kind
    backend: str
    free_bytes: int
    description: str = ""
    total_bytes: int = 0

    @property
    def is_fast(self) -> bool:
        return self.has_own_memory or (self.kind == "igpu" and self.description.startswith(_FAST_INTEGRATED_VENDOR))

    @property
    def has_own_memory(self) -> bool:
        return self.kind == "gpu"

    @property
    def room_bytes(self) -> int:
        if self.has_own_memory:
            return max(0, self.free_bytes - _GPU_RESERVE)
        return int(_RAM_SHARE * self.free_bytes)

    def with_room(self, room_bytes: int) -> Device:
        """Return the device with this much memory for models."""
        free = room_bytes + _GPU_RESERVE if self.has_own_memory else int(room_bytes / _RAM_SHARE)
        return replace(self, free_bytes=free)


def fast_devices(devices: Sequence[Device]) -> tuple[Device, ...]:
    """Return the default devices for layers: GPUs of one backend, or else integrated GPUs, if any.

    A GPU may be listed under two backends; the backend with the most memory counts.
    """
    gpus = [device for device in devices if device.is_fast] or [device for device in devices if device.kind == "igpu"]
    backends = dict.fromkeys(gpu.backend for gpu in gpus)
    if not backends:
        return ()
    most = max(backends, key=lambda backend: sum(gpu.free_bytes for gpu in gpus if gpu.backend == backend))
    return tuple(gpu for gpu in gpus if gpu.backend == most)


@dataclass(frozen=True, slots=True)
class BuildInfo:
    """The installed build: versions of llama-cpp-python, llama.cpp and ggml, as far as known, and its abilities.

    Attributes:
        commit: Commit of llama.cpp, if known.
        backends: Registered backends in llama.cpp's order, including those without a device.
        features: Compiled features of the backends, such as "AVX2".
        errors: Errors that llama.cpp logged while it listed devices.
    """

    binding: str
    version: str
    commit: str | None
    ggml: str
    backends: tuple[str, ...]
    supports_offload: bool
    features: tuple[str, ...]
    errors: str
