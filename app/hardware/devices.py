"""Devices and build of the installed llama.cpp, as ggml lists them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["cpu", "gpu", "igpu", "accel", "software"]
"""Kind of a device: "accel" helps the CPU, "software" is a software renderer on the CPU."""


@dataclass(frozen=True, slots=True)
class Device:
    """Device that can hold and compute layers.

    Attributes:
        name: llama.cpp's, such as "CUDA0".
        description: Such as "NVIDIA GeForce RTX 4090".
        kind: "gpu" has memory of its own, "igpu" shares RAM.
        backend: Such as "CUDA".
        total_bytes: Its memory; 0 if unknown.
        free_bytes: Of that, now; for the CPU what is available without swapping.
    """

    name: str
    description: str
    kind: Kind
    backend: str
    total_bytes: int
    free_bytes: int


@dataclass(frozen=True, slots=True)
class BuildInfo:
    """The installed build.

    Attributes:
        binding: Version of llama-cpp-python.
        version: Version of llama.cpp; "" if unknown.
        commit: Commit that it was built from; "" if unknown.
        ggml: Version of ggml; "" if unknown.
        backends: Registered backends in llama.cpp's order, also those without a device.
        supports_offload: Layers can go to a GPU.
        features: What the backends were compiled for, such as "AVX2".
        errors: Errors that llama.cpp logged while it listed devices.
    """

    binding: str
    version: str
    commit: str
    ggml: str
    backends: tuple[str, ...]
    supports_offload: bool
    features: tuple[str, ...]
    errors: str
