"""What may be passed to llama.cpp when a model is loaded: every value it would die of is refused here."""

from __future__ import annotations

from dataclasses import dataclass

from app.errors import UsageError

MAX_CONTEXT = 1 << 20
"""A cell costs about 51 bytes before the KV cache itself; 2^30 cells kept a machine busy for 43 s and then failed."""
MAX_THREADS = 512
"""4,096 threads took 20 s for one decode."""
MAX_BATCH = 1 << 14
KV_TYPES = {"f32": 0, "f16": 1, "bf16": 30, "q8_0": 8, "q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7}
"""KV cache types that llama.cpp's attention can read; an unknown number is a crash there."""
FLASH_ATTENTION = {"auto": -1, "off": 0, "on": 1}
_ALL_LAYERS = -1


@dataclass(frozen=True, slots=True)
class ModelParams:
    """How to load the weights.

    Attributes:
        n_gpu_layers: Layers to put on the GPU; -1 is all of them.
        use_mmap: Map the file instead of reading it.
    """

    n_gpu_layers: int = _ALL_LAYERS
    use_mmap: bool = True

    def __post_init__(self) -> None:
        _within("gpu layers", self.n_gpu_layers, -1, 10_000)


@dataclass(frozen=True, slots=True)
class ContextParams:
    """How to make a context.

    Attributes:
        n_ctx: Tokens the KV cache holds.
        n_batch: Most tokens in one decode; prompts are chunked by it.
        n_outputs: Most logits rows in one decode. llama.cpp reserves n_outputs x n_vocab floats for them.
        n_threads: CPU threads for single tokens.
        n_threads_batch: CPU threads for batches.
        flash_attention: "auto", "on" or "off".
        kv_type: A key of `KV_TYPES`, for keys and values alike.
    """

    n_ctx: int
    n_threads: int
    n_threads_batch: int
    n_batch: int = 512
    n_outputs: int = 1
    flash_attention: str = "auto"
    kv_type: str = "f16"

    def __post_init__(self) -> None:
        _within("context", self.n_ctx, 8, MAX_CONTEXT)
        _within("batch", self.n_batch, 1, MAX_BATCH)
        _within("outputs", self.n_outputs, 1, self.n_batch)
        _within("threads", self.n_threads, 1, MAX_THREADS)
        _within("batch threads", self.n_threads_batch, 1, MAX_THREADS)
        _among("flash attention", self.flash_attention, FLASH_ATTENTION)
        _among("KV cache type", self.kv_type, KV_TYPES)


def _within(name: str, value: int, low: int, high: int) -> None:
    if not isinstance(value, int) or not low <= value <= high:
        raise UsageError(f"The {name} setting is {value}; it must lie between {low:,} and {high:,}.")


def _among(name: str, value: str, known: dict[str, int]) -> None:
    if value not in known:
        raise UsageError(f'The {name} setting is "{value}"; it must be one of {", ".join(known)}.')
