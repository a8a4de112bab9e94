"""What the installed llama.cpp is and what it can use, as values; whoever reads them does not load it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["cpu", "gpu", "igpu", "accel", "software"]


@dataclass(frozen=True, slots=True)
class Device:
    """Something that can hold and compute layers.

    Attributes:
        name: llama.cpp's, such as "CUDA0".
        description: Such as "NVIDIA GeForce RTX 4090".
        kind: "gpu" has memory of its own, "igpu" shares the processor's, "accel" helps the processor, and "software"
            is the processor, which plays a card.
        backend: Such as "CUDA".
        total_bytes: Its memory; 0 where the library does not know.
        free_bytes: Of that, now; for the processor what can be had without swapping.
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
        version: Version of llama.cpp; empty if it does not tell.
        commit: Commit that it was built from; empty if it does not tell.
        ggml: Version of ggml; empty if it does not tell.
        backends: Registered backends, in llama.cpp's order, those without a device too.
        supports_offload: Whether layers can go to a GPU.
        features: What the backends were compiled for, such as "AVX2".
        errors: What llama.cpp logged as errors while it looked for devices.
    """

    binding: str
    version: str
    commit: str
    ggml: str
    backends: tuple[str, ...]
    supports_offload: bool
    features: tuple[str, ...]
    errors: str
