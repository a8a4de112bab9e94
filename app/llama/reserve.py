"""Let GPUs allocate at load what later batches need: an allocation that fails in a batch ends the process.

llama.cpp itself reserves weights, caches and compute buffers; backends add their own buffers at the first batch that
needs them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from app.core.errors import DecodeError, NoMemoryError
from app.hardware.devices import Device
from app.llama.context import Context
from app.llama.devices import describe
from app.llama.library import native
from app.llama.loading import devices_of
from app.llama.native_errors import no_memory
from app.settings.model_params import ModelParams

_FIRST_BATCH_BYTES = 256 << 20
"""Free memory before the first batch, for kernels and pools: an assumption, well below the reserve of the plan."""
_LEFT_BYTES = 64 << 20
"""Memory that must stay free after the first batch, because the copy of a quantized KV cache grows with the text (an
assumption). Saved states need none, because they are copies in RAM."""


def reserve(
    context: Context, params: ModelParams, *, is_planned: bool, compute: Callable[[], None] | None = None
) -> None:
    """Compute the largest batch on GPUs that hold the whole model, and check that enough of their memory stays free.

    `compute` does that for a model with draft layers, which change what the target computes; None for a model alone.

    If the CPU computes layers too, this batch could take a minute. Unless Tandem planned the placement, the user may
    fill a GPU. Raises NoMemoryError.
    """
    if not _gpus(params):
        return
    if is_planned:
        _check(context, params, _FIRST_BATCH_BYTES)
    if params.is_whole_on_gpu(native.llama_model_n_layer(context.model.handle)):
        try:
            (compute or partial(_warm_up, context))()
        except DecodeError as error:
            raise NoMemoryError(error.message, error.hint) from error
    if is_planned:
        _check(context, params, _LEFT_BYTES)


def _warm_up(context: Context) -> None:
    for n in (min(context.n_batch, context.n_ctx), 1):
        context.decode([0] * n, min(n, context.n_outputs))
        context.clear()
    context.native_ns = 0


def _gpus(params: ModelParams) -> list[Device]:
    devices = [describe(handle) for handle in devices_of(params).values() if handle is not None]
    return [device for device in devices if device.has_own_memory and device.backend != "RPC"]


def _check(context: Context, params: ModelParams, least: int) -> None:
    for gpu in _gpus(params):
        if gpu.free_bytes < least:
            raise no_memory(gpu.name, f"the batches of {context.model.name}")
