"""Measure how fast this machine multiplies 4-bit weights, which bounds the speed without drafts.

A token of a dense model uses every weight once. So one matrix-vector product that exceeds all caches, on the device
that layers go to, gives bytes per second; decoding came within 15% of it for models of 1 GB. Other programs only slow
it down, so the best of many products counts.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from app.hardware.build_choices import known_builds
from app.llama import devices, library
from app.llama.installed import import_failure
from app.llama.library import function

_F32, _Q4_K = 0, 12
"""`ggml_type`."""
_N_INPUTS, _N_OUTPUTS = 4096, 65536
"""150 MB of weights, more than the caches of most machines."""
_FEW_OUTPUTS = 64
_MIN_PRODUCTS, _MAX_PRODUCTS = 6, 64
_MEASURED_S = 1.5
"""Longer than most bursts of other programs."""
_CONTEXT_BYTES = 1 << 20

_POINTER, _SIZE, _INT64 = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64


class _InitParams(ctypes.Structure):
    """`ggml_init_params`."""

    _fields_ = (("mem_size", _SIZE), ("mem_buffer", _POINTER), ("no_alloc", ctypes.c_bool))


_FUNCTION_PROTOTYPES: dict[str, tuple[Any, list[Any]]] = {
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


def throughput(n_threads: int, of_ram: bool = False) -> float | None:
    """Return the bytes of weights per second of the device that layers go to first, or of RAM; None without memory.

    Runs in the child of `app.llama.fitting.machine_room.bandwidth`.
    """
    library.start()
    device = devices.fastest(("cpu",)) if of_ram else devices.fastest()
    try:
        return _measured(device, n_threads) if device is not None else None
    except MemoryError:
        return None


def try_cpu() -> None:
    """Compute a small product on the CPU, in the child of `app.llama.installed`.

    Raises LibraryError for another release of llama-cpp-python, whose structs may differ from Tandem's.
    """
    if not library.binding_version.startswith(version := known_builds()["version"]):
        raise import_failure(f"it is llama-cpp-python {library.binding_version}, and Tandem needs {version}")
    library.start()
    if (device := devices.fastest(("cpu",))) is not None:
        _measured(device, 1, _FEW_OUTPUTS, lambda compute: 1.0 if compute() else None)


def _measured(
    device: int,
    n_threads: int,
    n_outputs: int = _N_OUTPUTS,
    timed: Callable[[Callable[[], bool]], float | None] | None = None,
) -> float | None:
    ggml = {name: function(name, *prototype) for name, prototype in _FUNCTION_PROTOTYPES.items()}
    with ExitStack() as stack:

        def owned(make: str, free: str, *arguments: Any) -> int:
            pointer = _checked(ggml[make](*arguments))
            stack.callback(ggml[free], pointer)
            return pointer

        backend = owned("ggml_backend_dev_init", "ggml_backend_free", device, None)
        devices.set_threads(device, backend, n_threads)
        context = owned("ggml_init", "ggml_free", _InitParams(_CONTEXT_BYTES, None, True))
        weights = _checked(ggml["ggml_new_tensor_2d"](context, _Q4_K, _N_INPUTS, n_outputs))
        token = _checked(ggml["ggml_new_tensor_2d"](context, _F32, _N_INPUTS, 1))
        graph = _checked(ggml["ggml_new_graph"](context))
        ggml["ggml_build_forward_expand"](graph, ggml["ggml_mul_mat"](context, weights, token))
        buffer = owned("ggml_backend_alloc_ctx_tensors", "ggml_backend_buffer_free", context, backend)
        # Unwritten memory is mapped to one page of zeros.
        ggml["ggml_backend_buffer_clear"](buffer, 0)
        best_s = (timed or _timed)(lambda: int(ggml["ggml_backend_graph_compute"](backend, graph)) == 0)
        return int(ggml["ggml_nbytes"](weights)) / best_s if best_s is not None else None


def _timed(compute: Callable[[], bool]) -> float | None:
    # The first run includes starting the threads.
    if not compute():
        return None
    times: list[float] = []
    began = time.perf_counter()
    while len(times) < _MIN_PRODUCTS or (len(times) < _MAX_PRODUCTS and time.perf_counter() - began < _MEASURED_S):
        started = time.perf_counter()
        if not compute():
            return None
        times.append(time.perf_counter() - started)
    return min(times)


def _checked(pointer: int | None) -> int:
    if not pointer:
        raise MemoryError
    return pointer
