"""Device names, layer counts and KV cache types that settings, plans and llama.cpp share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

CPU = "cpu"
"""The CPU and RAM, among the names of devices; no layer is on any other."""
ALL_LAYERS = -1
"""In place of a number of layers."""
_BLOCK = 32


@dataclass(frozen=True, slots=True)
class KvType:
    """A type of values in a KV cache.

    Attributes:
        ggml_type: ggml's number for it; one that llama.cpp does not know is a crash there.
        n_bytes: Of a value.
        in_blocks: Whether it is quantized, in blocks of 32 values.
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
    """Return whether a KV cache type needs flash attention; blocks cannot be transposed.

    What is no type needs nothing.
    """
    found = KV_TYPES.get(name)
    return found is not None and found.in_blocks
