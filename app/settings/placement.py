"""Device names, layer counts and KV cache types shared by settings, plans and llama.cpp."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

CPU = "cpu"
"""Device name of the CPU and RAM."""
ALL_LAYERS = -1
MAX_LAYERS = 9999
MAX_OFFLOAD = 4096
"""Largest op offload threshold; no batch is as long, so it turns op offload off."""
DEFAULT_OFFLOAD = 32
"""llama.cpp's op offload threshold: for batches of this size, weights in RAM are copied to the GPU."""
EXPERTS = r"\.ffn_(up|down|gate|gate_up)_(ch|)exps"
"""llama.cpp's pattern of expert weights (LLM_FFN_EXPS_REGEX)."""
TUNED = ("model.gpu_layers", "model.kv_type", "draft.device", "model.offload_min_batch")
"""Settings that `tandem tune --placement` chooses, unless they are set."""
_VALUES_PER_BLOCK = 32
"""Values in a block of a quantized type."""


@dataclass(frozen=True, slots=True)
class KvType:
    """A type of values in a KV cache: ggml's number (llama.cpp crashes on an unknown number) and bytes per value."""

    ggml_type: int
    n_bytes: float


KV_TYPES: Mapping[str, KvType] = {
    "f32": KvType(0, 4),
    "f16": KvType(1, 2),
    "bf16": KvType(30, 2),
    "q8_0": KvType(8, 34 / _VALUES_PER_BLOCK),
    "q4_0": KvType(2, 18 / _VALUES_PER_BLOCK),
    "q4_1": KvType(3, 20 / _VALUES_PER_BLOCK),
    "q5_0": KvType(6, 22 / _VALUES_PER_BLOCK),
    "q5_1": KvType(7, 24 / _VALUES_PER_BLOCK),
}
"""llama.cpp's names of the types. A block has a scale of two bytes, and in the _1 types also an offset of two bytes."""
WIDE_KV = ("f32", "f16", "bf16")
"""KV cache types that are not quantized."""


def needs_flash_attention(name: str) -> bool:
    """Return whether a KV cache type needs flash attention, because quantized blocks cannot be transposed."""
    return name.startswith("q")


def expert_overrides(n_layers: int) -> tuple[str, ...]:
    """Return the overrides that keep the experts of the first layers in RAM, like llama.cpp's --n-cpu-moe."""
    if n_layers >= MAX_LAYERS:
        return (f"{EXPERTS}={CPU}",)
    return tuple(rf"blk\.{layer}{EXPERTS}={CPU}" for layer in range(n_layers))


def experts_in_ram(n: int, n_layers: int) -> str:
    """Return a phrase for the placement of experts."""
    return f"{n} of {n_layers} layers' experts in RAM"


def split_override(text: str) -> tuple[str, str]:
    """Split PATTERN=DEVICE at its first equals sign, as llama.cpp does."""
    pattern, _, device = text.partition("=")
    return pattern, device


def share(text: str) -> float:
    """Parse a non-negative number. Raises ValueError."""
    number = float(text)
    if not math.isfinite(number) or number < 0:
        raise ValueError(text)
    return number
