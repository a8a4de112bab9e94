"""Parameters of a model's weights and of its contexts, as requested in the settings or as planned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from app.core.errors import UsageError
from app.core.units import counted
from app.engine.types import Threads
from app.settings.kinds import Overrides
from app.settings.layers import Layer, Resolved
from app.settings.placement import ALL_LAYERS, CPU, expert_overrides
from app.settings.table import BY_NAME

_SETTINGS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "gpu_layers": ("n_gpu_layers", lambda layers: ALL_LAYERS if layers is None else layers),
    "device": ("devices", lambda names: names or ()),
    "tensor_split": ("tensor_split", lambda shares: shares or ()),
    "override_tensor": ("overrides", Overrides().read),
    "n_cpu_moe": ("cpu_experts", lambda layers: layers),
}
"""Settings of a model's placement, each with its field of `ModelParams` and the conversion of its value."""


@dataclass(frozen=True, slots=True)
class ModelParams:
    """Parameters for loading weights.

    Attributes:
        n_gpu_layers: Layers to put on the devices; -1 is all of them.
        devices: llama.cpp's names such as "CUDA0"; ("cpu",) is the CPU alone, () leaves the choice to llama.cpp.
        tensor_split: Share of the layers for each device; () goes by their free memory.
        split: Whether several devices may share the layers.
        overrides: Devices of tensors as PATTERN=DEVICE; the first matching pattern decides.
        cpu_experts: Layers whose experts stay in RAM; None for as many as memory needs.
        load_mtp: Whether to load the layers for multi-token prediction (MTP) and draft with them.
    """

    n_gpu_layers: int = ALL_LAYERS
    devices: tuple[str, ...] = ()
    tensor_split: tuple[float, ...] = ()
    split: bool = True
    load_mtp: bool = False
    overrides: tuple[str, ...] = ()
    cpu_experts: int | None = None

    def __post_init__(self) -> None:
        devices, shares = self.devices, self.tensor_split
        if len({name.lower() for name in devices}) != len(devices):
            raise UsageError(f"A device is named twice: {', '.join(devices)}.")
        if len(devices) > 1 and CPU in devices:
            raise UsageError(
                'The device "cpu" cannot be combined with others.',
                "To share the layers with it, put fewer on the GPU (⟨model.gpu_layers⟩).",
            )
        if shares and not sum(shares) > 0:
            raise UsageError("The shares of the tensor split are all 0.")
        if shares and devices and len(shares) != len(devices):
            numbers = f"{counted(len(shares), 'share')} for {counted(len(devices), 'device')}"
            raise UsageError(f"The tensor split has {numbers}.", "Give one for each.")

    @classmethod
    def of(cls, settings: Resolved, table: str) -> ModelParams:
        """Return the parameters in the settings of a table: "model" or "draft". Raises UsageError."""
        return cls(split=table == "model").over({name: settings[name] for name in BY_NAME}, table)

    def over(self, values: Layer, table: str) -> ModelParams:
        """Return these parameters, changed by a layer's values for the settings of the table."""
        changes: dict[str, Any] = {
            field: read(values[f"{table}.{name}"])
            for name, (field, read) in _SETTINGS.items()
            if f"{table}.{name}" in values
        }
        return replace(self, **changes)

    @property
    def on_cpu(self) -> bool:
        """Return whether the CPU was requested, by name or by leaving it all layers."""
        return self.devices == (CPU,) or self.n_gpu_layers == 0

    def is_whole_on_gpu(self, n_layers: int) -> bool:
        """Return whether GPUs, where there are any, compute the output and all layers of a model."""
        return (self.n_gpu_layers == ALL_LAYERS or self.n_gpu_layers > n_layers) and not self.all_overrides

    @property
    def all_overrides(self) -> tuple[str, ...]:
        """Return `overrides` and the overrides for experts in RAM."""
        return (*self.overrides, *expert_overrides(self.cpu_experts or 0))


ANYWHERE, DRAFT_ANYWHERE = ModelParams(), ModelParams(split=False)
"""Default parameters of a target and of a draft."""


@dataclass(frozen=True, slots=True)
class ContextParams:
    """Parameters of a context; all but the threads decide its memory.

    Attributes:
        n_batch: Largest number of tokens in a decode.
        n_outputs: Largest number of logits rows in a decode. llama.cpp reserves n_outputs x n_vocab floats.
        kv_type: A key of `KV_TYPES`, for keys and values.
        n_snapshots: Earlier states of a recurrent model, so that as many tokens can be rolled back.
        flash_attention: "auto", "on" or "off", which stores every head's scores over the whole cache.
        swa_full: False keeps only the sliding window and one batch in its layers, and copies of the window in RAM.
    """

    n_ctx: int
    threads: Threads = field(default=Threads(1, 1))
    n_batch: int = 512
    n_outputs: int = 1
    kv_type: str = "f16"
    n_snapshots: int = 0
    flash_attention: str = "auto"
    swa_full: bool = True
