"""Device names, layer counts and KV cache types that settings, plans and llama.cpp share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

CPU = "cpu"
"""Device name of the CPU and RAM."""
ALL_LAYERS = -1
_BLOCK = 32


@dataclass(frozen=True, slots=True)
class KvType:
    """A type of values in a KV cache.

    Attributes:
        ggml_type: ggml's number; llama.cpp crashes on an unknown one.
        n_bytes: Bytes of a value.
        in_blocks: Quantized, in blocks of 32 values.
    """

    ggml_type: int
    n_bytes: float
    in_blocks: bool = False


def _blocks(ggml_type: int, n_bytes: int) -> KvType:
    return KvType(ggml_type, n_bytes / _BLOCK, in_blocks=True)


KV_TYPES: Mapping[str, KvType] = {
    "f32": KvType(0, 4),
    "f16": KvType(1, 2),
    "bf16": KvType(30, 2),
    "q8_0": _blocks(8, 34),
    "q4_0": _blocks(2, 18),
    "q4_1": _blocks(3, 20),
    "q5_0": _blocks(6, 22),
    "q5_1": _blocks(7, 24),
}
"""By llama.cpp's names. A block has a scale of two bytes, and an offset of two more in the _1 types."""


def needs_flash_attention(name: str) -> bool:
    """Return whether a KV cache type needs flash attention; blocks cannot be transposed."""
    return name in KV_TYPES and KV_TYPES[name].in_blocks
