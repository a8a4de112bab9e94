"""Parameters of models and contexts; values that llama.cpp would abort on are refused."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

from app.core.errors import UsageError
from app.core.units import counted
from app.settings.placement import ALL_LAYERS, CPU, KV_TYPES

MAX_CONTEXT = 1 << 20
"""Each cell costs about 51 bytes before the KV cache itself; 2^30 cells failed after 43 s."""
MAX_THREADS = 512
"""4,096 threads took 20 s for one decode."""
MAX_BATCH = 1 << 14
MAX_SNAPSHOTS = 9
"""llama.cpp's graph has so many nodes for each tensor; 10 filled it with the layers of Nemotron-H, 31 with LFM2's, and
that ends the process."""
FLASH_ATTENTION = {"auto": -1, "off": 0, "on": 1}
CPU_LABEL = "CPU"
"""Device label when the CPU computes all layers."""
MAX_DEVICES = 16
"""LLAMA_MAX_DEVICES; llama.cpp reads as many shares, whatever it is given."""
_LONGEST_NAME = 64


@dataclass(frozen=True, slots=True)
class ModelParams:
    """Parameters for loading weights.

    Attributes:
        n_gpu_layers: Layers to put on the devices; -1 is all of them.
        devices: llama.cpp's names such as "CUDA0"; ("cpu",) is the CPU alone, () leaves the choice to llama.cpp.
        tensor_split: Share of the layers for each device; () goes by their free memory.
        split: Whether several devices may share the layers.
    """

    n_gpu_layers: int = ALL_LAYERS
    devices: tuple[str, ...] = ()
    tensor_split: tuple[float, ...] = ()
    split: bool = True

    def __post_init__(self) -> None:
        _within("gpu layers", self.n_gpu_layers, -1, 10_000)
        _check_devices(self.devices)
        _check_shares(self.tensor_split, len(self.devices))
        if not self.split and (len(self.devices) > 1 or self.tensor_split):
            raise UsageError(
                "A model that is not split goes on one device.", "Name one device, without a tensor split."
            )

    @property
    def on_cpu(self) -> bool:
        """Return whether the CPU was requested, by name or by leaving it all layers."""
        return self.devices == (CPU,) or self.n_gpu_layers == 0


@dataclass(frozen=True, slots=True)
class ContextParams:
    """Parameters of a context.

    Attributes:
        n_ctx: Tokens the KV cache holds.
        n_batch: Most tokens in one decode.
        n_outputs: Most logits rows in one decode. llama.cpp reserves n_outputs x n_vocab floats for them.
        n_threads: CPU threads for single tokens.
        n_threads_batch: CPU threads for batches.
        flash_attention: "auto", "on" or "off".
        kv_type: A key of `app.settings.placement.KV_TYPES`, for keys and values alike.
        n_snapshots: Earlier states of a recurrent model to keep, so that as many tokens can be rolled back.
        waits: Whether to wait for batches without logits too. A remote device queues those, so that a whole prompt
            would be one wait at its end, which cannot be stopped.
    """

    n_ctx: int
    n_threads: int
    n_threads_batch: int
    n_batch: int = 512
    n_outputs: int = 1
    flash_attention: str = "auto"
    kv_type: str = "f16"
    n_snapshots: int = 0
    waits: bool = False

    def __post_init__(self) -> None:
        _within("context", self.n_ctx, 8, MAX_CONTEXT)
        _within("batch", self.n_batch, 1, MAX_BATCH)
        _within("outputs", self.n_outputs, 1, self.n_batch)
        _within("snapshots", self.n_snapshots, 0, MAX_SNAPSHOTS)
        check_threads(self.n_threads, self.n_threads_batch)
        _among("flash attention", self.flash_attention, FLASH_ATTENTION)
        _among("KV cache type", self.kv_type, KV_TYPES)


def check_threads(generation: int, prompt: int) -> None:
    """Refuse thread counts that llama.cpp does not survive.

    Raises:
        UsageError: Naming the first wrong one.
    """
    _within("threads", generation, 1, MAX_THREADS)
    _within("batch threads", prompt, 1, MAX_THREADS)


def _check_devices(names: tuple[str, ...]) -> None:
    if len(names) > MAX_DEVICES or not all(0 < len(name) <= _LONGEST_NAME and name.isprintable() for name in names):
        raise UsageError(f"The devices are {names!r}; at most {MAX_DEVICES} names are possible.", "See tandem doctor.")
    if len({name.lower() for name in names}) != len(names):
        raise UsageError(f"A device is named twice: {', '.join(names)}.")
    if len(names) > 1 and CPU in names:
        raise UsageError(
            'The device "cpu" cannot be combined with others.', "--gpu-layers leaves layers to it that do not fit."
        )


def _check_shares(shares: tuple[float, ...], n_devices: int) -> None:
    if not shares:
        return
    if len(shares) > MAX_DEVICES or not all(math.isfinite(share) and share >= 0 for share in shares):
        raise UsageError(f"The tensor split is {shares!r}; at most {MAX_DEVICES} numbers from 0 up are possible.")
    if not sum(shares) > 0:
        raise UsageError("The shares of the tensor split are all 0.")
    if n_devices and len(shares) != n_devices:
        numbers = f"{counted(len(shares), 'share')} for {counted(n_devices, 'device')}"
        raise UsageError(f"The tensor split has {numbers}.", "Give one for each.")


def _within(name: str, value: int, low: int, high: int) -> None:
    if not isinstance(value, int) or not low <= value <= high:
        raise UsageError(f"The {name} setting is {value}; it must lie between {low:,} and {high:,}.")


def _among(name: str, value: str, known: Collection[str]) -> None:
    if value not in known:
        raise UsageError(f'The {name} setting is "{value}"; it must be one of {", ".join(known)}.')
