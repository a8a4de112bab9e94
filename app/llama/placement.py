"""Translate device names into llama.cpp's placement of layers."""

from __future__ import annotations

import ctypes
from typing import Any

from app.core.errors import UsageError
from app.llama.devices import description, graphics
from app.llama.library import native
from app.llama.params import CPU_LABEL, MAX_DEVICES, ModelParams
from app.settings.placement import CPU

_SPLIT_NONE = 0


def place(raw: Any, params: ModelParams) -> tuple[Any, ...]:
    """Write the placement into a `llama_model_params`.

    Returns:
        What llama.cpp holds bare pointers to; it must live until the model is freed.

    Raises:
        UsageError: A device is not known here. llama.cpp would follow the pointer.
    """
    kept: list[Any] = []
    raw.n_gpu_layers = params.n_gpu_layers
    if not params.split:
        raw.split_mode = _SPLIT_NONE
        raw.main_gpu = 0
    pointers = _pointers(params.devices)
    if pointers is not None:
        array = (ctypes.c_void_p * (len(pointers) + 1))(*pointers, None)
        raw.devices = ctypes.addressof(array)
        kept.append(array)
    if params.tensor_split:
        # As many as llama.cpp copies, however many devices there are.
        shares = (ctypes.c_float * max(MAX_DEVICES, native.llama_max_devices()))(*params.tensor_split)
        raw.tensor_split = ctypes.cast(shares, ctypes.POINTER(ctypes.c_float))
        kept.append(shares)
    return tuple(kept)


def _pointers(names: tuple[str, ...]) -> list[int] | None:
    """Return the pointers of named devices; None leaves the choice to llama.cpp."""
    if names:
        return [] if names == (CPU,) else find(names)
    hardware = _hardware()
    # llama.cpp would prefer a card that the processor plays to the processor.
    return list(hardware.values()) if hardware != graphics() else None


def find(names: tuple[str, ...]) -> list[int]:
    """Native pointers of devices, in the order of their names; upper and lower case are one.

    Raises:
        UsageError: One is not known here; a GPU may have gone since the last run.
    """
    known = graphics()
    by_name = {name.lower(): handle for name, handle in known.items()}
    missing = [name for name in names if name.lower() not in by_name]
    if missing:
        raise UsageError(f"llama.cpp has no device {', '.join(missing)} here.", f"It has: {', '.join([*known, CPU])}.")
    return [by_name[name.lower()] for name in names]


def label(params: ModelParams) -> str:
    """Return a short label of the devices that hold the layers."""
    if params.on_cpu:
        return CPU_LABEL
    if params.devices:
        return " + ".join(params.devices)
    return " + ".join(_hardware()) or CPU_LABEL


def kinds_of(params: ModelParams) -> tuple[str, ...]:
    """Return descriptions of the devices, such as "NVIDIA GeForce RTX 4090"; "" for one that is missing."""
    known = {name.lower(): handle for name, handle in graphics().items()}
    names = params.devices or tuple(_hardware())
    return tuple(description(known[name.lower()]) if name.lower() in known else "" for name in names)


def _hardware() -> dict[str, int]:
    return graphics(software=False)
