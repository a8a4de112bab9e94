"""Measure how fast this machine computes with weights, which bounds the speed without drafts.

One token takes every weight of a dense model once, in products of a matrix with a vector. One such product of 4-bit
weights, too large for any cache, on the device that the layers would go to, tells bytes per second; it counts memory
and kernels together, whichever is the slower here. Decoding itself came within 15% of it for models of 1 GB.

Whatever else the machine does makes it slower, never faster: the best of many short products counts, and how much of
the processor they had tells whether even that one was disturbed.
"""

from __future__ import annotations

import ctypes
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from app.core.errors import ModelLoadError
from app.llama import devices, library
from app.llama.library import function
from app.llama.probe import Throughput

_F32, _Q4_K = 0, 12
"""ggml's numbers of these types, which stand in model files and never change."""
_INPUTS, _OUTPUTS = 4096, 65536
"""150 MB of weights: a token of a small model, and beyond the caches of all but servers."""
_WARM_UP, _FEWEST, _MOST = 1, 6, 64
_LONG_ENOUGH_S = 1.5
"""Longer than most bursts of other programs."""
_ALONE = 0.85
"""Share of CPU time that a product has when nothing else runs; threads wait for each other a little."""
_CONTEXT_BYTES = 1 << 20

_POINTER, _SIZE, _INT64 = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64


class _InitParams(ctypes.Structure):
    """`ggml_init_params`."""

    _fields_ = (("mem_size", _SIZE), ("mem_buffer", _POINTER), ("no_alloc", ctypes.c_bool))


_PROTOTYPES: dict[str, tuple[Any, list[Any]]] = {
    "ggml_init": (_POINTER, [_InitParams]),
    "ggml_free": (None, [_POINTER]),
    "ggml_new_tensor_2d": (_POINTER, [_POINTER, ctypes.c_int, _INT64, _INT64]),
    "ggml_mul_mat": (_POINTER, [_POINTER, _POINTER, _POINTER]),
    "ggml_nbytes": (_SIZE, [_POINTER]),
    "ggml_new_graph": (_POINTER, [_POINTER]),
    "ggml_build_forward_expand": (None, [_POINTER, _POINTER]),
    "ggml_backend_dev_init": (_POINTER, [_POINTER, ctypes.c_char_p]),
    "ggml_backend_free": (None, [_POINTER]),
    "ggml_backend_alloc_ctx_tensors": (_POINTER, [_POINTER, _POINTER]),
    "ggml_backend_buffer_free": (None, [_POINTER]),
    "ggml_backend_buffer_clear": (None, [_POINTER, ctypes.c_uint8]),
    "ggml_backend_graph_compute": (ctypes.c_int, [_POINTER, _POINTER]),
}


def throughput(n_threads: int) -> Throughput | None:
    """The throughput of the device that layers go to first; see `app.llama.probe`."""
    library.start()
    try:
        device = devices.fastest()
        return _measured(device, n_threads) if device is not None else None
    except (AttributeError, MemoryError):
        return None


def _tell(n_threads: int) -> None:
    """The child's side of `app.llama.probe`."""
    try:
        found = throughput(n_threads)
    except ModelLoadError:
        found = None
    sys.stdout.write(json.dumps([found.bytes_per_s, found.alone] if found is not None else None))


def _measured(device: int, n_threads: int) -> Throughput | None:
    """Measure on one device.

    Raises:
        AttributeError: This release of ggml lacks a function.
        MemoryError: The device has no room.
    """
    ggml = {name: function(name, *prototype) for name, prototype in _PROTOTYPES.items()}
    backend = _there(ggml["ggml_backend_dev_init"](device, None))
    try:
        devices.set_threads(device, backend, n_threads)
        context = _there(ggml["ggml_init"](_InitParams(_CONTEXT_BYTES, None, True)))
        try:
            weights = _there(ggml["ggml_new_tensor_2d"](context, _Q4_K, _INPUTS, _OUTPUTS))
            token = _there(ggml["ggml_new_tensor_2d"](context, _F32, _INPUTS, 1))
            graph = _there(ggml["ggml_new_graph"](context))
            ggml["ggml_build_forward_expand"](graph, ggml["ggml_mul_mat"](context, weights, token))
            buffer = _there(ggml["ggml_backend_alloc_ctx_tensors"](context, backend))
            try:
                # Memory that was never written is no memory yet, and is read from one page of zeros.
                ggml["ggml_backend_buffer_clear"](buffer, 0)
                rounds = _rounds(lambda: int(ggml["ggml_backend_graph_compute"](backend, graph)) == 0)
            finally:
                ggml["ggml_backend_buffer_free"](buffer)
            if rounds is None:
                return None
            n_here = n_threads if devices.is_processor(device) else 0
            return Throughput(int(ggml["ggml_nbytes"](weights)) / rounds.best_s, rounds.share(n_here) >= _ALONE)
        finally:
            ggml["ggml_free"](context)
    finally:
        ggml["ggml_backend_free"](backend)


@dataclass(frozen=True, slots=True)
class _Rounds:
    """Times of the same product, again and again: of the fastest, of all, and what all had of the processor."""

    best_s: float
    whole_s: float
    processor_s: float

    def share(self, n_threads: int) -> float:
        """Return the share of CPU time that these threads had; 1 if the CPU does not compute."""
        return min(1.0, self.processor_s / (self.whole_s * n_threads)) if n_threads else 1.0


def _rounds(compute: Callable[[], bool]) -> _Rounds | None:
    """Compute until it is clear how fast that can be; None if it fails."""
    times: list[float] = []
    for _ in range(_WARM_UP):
        if not compute():
            return None
    begun, processor = time.perf_counter(), time.process_time()
    while len(times) < _FEWEST or (len(times) < _MOST and time.perf_counter() - begun < _LONG_ENOUGH_S):
        started = time.perf_counter()
        if not compute():
            return None
        times.append(time.perf_counter() - started)
    return _Rounds(min(times), time.perf_counter() - begun, time.process_time() - processor)


def _there(pointer: int | None) -> int:
    if not pointer:
        raise MemoryError
    return pointer
