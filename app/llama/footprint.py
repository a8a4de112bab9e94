"""Ask llama.cpp how much memory a load takes, before it allocates any.

A load with `no_alloc` lays out weights, KV cache and compute buffers, and logs the sizes of caches and buffers. It runs
in a child process, because a model file or a driver may end the process.
"""

from __future__ import annotations

import ctypes
import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from app.core.errors import AppError
from app.llama import library
from app.llama.child import ChildError, ask
from app.llama.context import native_params
from app.llama.library import native
from app.llama.loading import place
from app.llama.params import ContextParams, ModelParams
from app.models.memory_estimate import N_SNAPSHOTS
from app.settings.placement import CPU

_READ = 0
_MIB = 1 << 20
_CACHE = re.compile(r"^\w+: size =\s*([\d.]+) MiB \(", re.MULTILINE)
"""Log line of a KV cache or of recurrent states."""
_BUFFER = re.compile(r"(\S+) compute buffer size =\s*([\d.]+) MiB")
_IN_RAM = re.compile(r"^CPU|_Host$")


@dataclass(frozen=True, slots=True)
class Footprint:
    """Memory of a model by llama.cpp's own figures, in bytes.

    Attributes:
        kv: KV caches and recurrent states, on all devices.
        compute: Largest compute buffer of the devices that hold layers.
        host: Compute buffers in RAM beside it.
    """

    kv: int
    compute: int
    host: int


def measure(path: Path, model: ModelParams, context: ContextParams) -> Footprint | None:
    """Return the memory that a load with these settings takes; None if llama.cpp does not tell.

    Takes a quarter of a second and reads no weights.
    """
    try:
        return read_log(ask("footprint.log_of_load", str(path), asdict(model), asdict(context)))
    except (AppError, ChildError):
        return None


def read_log(log: str) -> Footprint | None:
    """Read the sizes out of llama.cpp's log; None if a line is missing."""
    caches = [float(size) for size in _CACHE.findall(log)]
    buffers = [(name, float(size)) for name, size in _BUFFER.findall(log)]
    if not caches or not buffers:
        return None
    on_devices = [size for name, size in buffers if not _IN_RAM.search(name)]
    in_ram = sum(size for name, size in buffers if _IN_RAM.search(name))
    compute, host = (max(on_devices), in_ram) if on_devices else (in_ram, 0.0)
    return Footprint(*(round(size * _MIB) for size in (sum(caches), compute, host)))


def log_of_load(path: str, model: dict[str, Any], context: dict[str, Any]) -> str:
    """Return llama.cpp's log of a load without memory, "" if it refuses; the child's side of `measure`."""
    tuples = {name: tuple(model[name]) for name in ("devices", "tensor_split")}
    lines: list[bytes] = []
    library.start()
    callback = native.llama_log_callback(lambda level, text, _: lines.append(text))
    native.llama_log_set(callback, ctypes.c_void_p(0))
    is_loaded = load_nothing(Path(path), ModelParams(**{**model, **tuples}), ContextParams(**context))
    return b"".join(lines).decode("utf-8", errors="replace") if is_loaded else ""


def try_load(path: str) -> bool:
    """Return whether llama.cpp loads a file; the child's side of `app.llama.child`."""
    context = ContextParams(n_ctx=256, n_threads=1, n_threads_batch=1, n_snapshots=N_SNAPSHOTS)
    return load_nothing(Path(path), ModelParams(devices=(CPU,)), context)


def load_nothing(path: Path, model: ModelParams, context: ContextParams) -> bool:
    """Load a model and make its context without memory, in a process that does nothing else; free neither.

    Returns:
        Whether llama.cpp accepts both.
    """
    library.start()
    raw: Any = native.llama_model_default_params()
    kept = place(raw, model)
    raw.no_alloc = True
    raw.load_mode = _READ
    handle = native.llama_model_load_from_file(os.fsencode(path), raw)
    del kept
    return bool(handle and native.llama_init_from_model(handle, native_params(context)))
