"""How much memory a load will take, by llama.cpp's own reckoning, before a byte of it is allocated.

llama.cpp plans a load without memory (`no_alloc`): it lays out weights, KV cache and compute buffers and only adds up.
Its figures come from a C++ function that returns a std::map by value; reading that needs to know how one compiler lays
it out, so it is done on Linux on x86-64 only, for the release that was looked at, and in a child process: a model or a
driver that ends the process ends that one.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from app.core.child import ask_python
from app.llama import library
from app.llama.context import native_params
from app.llama.devices import graphics
from app.llama.library import native
from app.llama.params import ContextParams, ModelParams
from app.llama.placement import place

MAIN = "CPU"
"""Main memory, among the names of devices."""
_LAID_OUT = "0.3.36"
"""The release of llama-cpp-python whose llama_memory_breakdown_data was read: three size_t."""
_SYMBOL = "_Z26llama_get_memory_breakdownPK13llama_context"
_MOST = 256
_SECONDS = 60.0
_READ = 0
_LOGIT_BYTES = 4
# libstdc++'s std::map: its header holds the root and the count, a node four words in front of key and value.
_MAP_BYTES, _ROOT, _COUNT = 48, 16, 40
_LEFT, _RIGHT, _KEY = 16, 24, 32


@dataclass(frozen=True, slots=True)
class Part:
    """What one model takes of one device's memory, in bytes.

    Attributes:
        device: llama.cpp's name, or `MAIN`.
        weights: Tensors of the model.
        kv: KV cache.
        compute: Buffers of the graph, and the rows of logits that are kept.
    """

    device: str
    weights: int
    kv: int
    compute: int

    @property
    def total(self) -> int:
        return self.weights + self.kv + self.compute


def can_measure() -> bool:
    """Whether `measure` can work here."""
    return (
        sys.platform == "linux"
        and platform.machine() == "x86_64"
        and library.binding_version == _LAID_OUT
        and hasattr(native._lib, _SYMBOL)
    )


def measure(path: Path, model: ModelParams, context: ContextParams) -> tuple[Part, ...] | None:
    """What a load with these settings will take, device by device; None where that cannot be found out.

    Takes a quarter of a second and touches no weights. Weights that are mapped from the file are counted as main
    memory: the system can take those pages back, at the price of reading them again.
    """
    if not can_measure():
        return None
    question = json.dumps({"path": str(path), "model": asdict(model), "context": asdict(context)})
    try:
        done = ask_python("from app.llama.footprint import _tell; _tell()", _SECONDS, question.encode())
        if done.returncode != 0:
            return None
        return tuple(Part(**part) for part in json.loads(done.stdout.splitlines()[-1]))
    except (OSError, subprocess.TimeoutExpired, ValueError, TypeError, IndexError):
        return None


def breakdown(context: int, kept_rows_bytes: int = 0) -> tuple[Part, ...]:
    """The memory of a native context and its model, by device; see `can_measure`.

    Args:
        context: A native pointer.
        kept_rows_bytes: Bytes of the logits that llama.cpp keeps in main memory and does not count.
    """
    function = native._lib[_SYMBOL]
    function.restype, function.argtypes = None, [ctypes.c_void_p, ctypes.c_void_p]
    header = (ctypes.c_uint64 * (_MAP_BYTES // 8))()
    # A result that does not fit into registers goes where a hidden first argument points.
    function(ctypes.addressof(header), context)
    count = header[_COUNT // 8]
    devices = {handle: name for name, handle in graphics().items()}
    found: dict[str, list[int]] = {MAIN: [0, 0, kept_rows_bytes]}
    pending, seen = [header[_ROOT // 8]], 0
    while pending:
        node = pending.pop()
        if not node:
            continue
        seen += 1
        if seen > min(count, _MOST):
            raise ValueError("the map is laid out in another way")
        words = (ctypes.c_uint64 * 8).from_address(node)
        pending += [words[_LEFT // 8], words[_RIGHT // 8]]
        buffer, *sizes = words[_KEY // 8 :]
        sums = found.setdefault(_device(buffer, devices), [0, 0, 0])
        for index, size in enumerate(sizes):
            sums[index] += size
    if seen != count:
        raise ValueError("the map is laid out in another way")
    return tuple(Part(name, *sums) for name, sums in found.items())


def _device(buffer: int, devices: dict[int, str]) -> str:
    """Whose memory a type of buffer is; a card's pinned buffers are main memory, and so are repacked weights."""
    is_host, device_of = native._lib["ggml_backend_buft_is_host"], native._lib["ggml_backend_buft_get_device"]
    is_host.restype, is_host.argtypes = ctypes.c_bool, [ctypes.c_void_p]
    device_of.restype, device_of.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    return MAIN if is_host(buffer) else devices.get(device_of(buffer), MAIN)


def _tell() -> None:
    """The child's side of `measure`."""
    question = json.load(sys.stdin)
    tuples = {name: tuple(question["model"][name]) for name in ("devices", "tensor_split")}
    model = ModelParams(**{**question["model"], **tuples})
    parts = _planned(Path(question["path"]), model, ContextParams(**question["context"]))
    sys.stdout.write(json.dumps([asdict(part) for part in parts]) + "\n")
    sys.stdout.flush()
    # Nothing is freed: no weights are there, and a driver that dies while it cleans up has answered all the same.
    os._exit(0)


def _planned(path: Path, model: ModelParams, context: ContextParams) -> tuple[Part, ...]:
    n_vocab, planned = load_nothing(path, model, context)
    return breakdown(planned, min(context.n_outputs, context.n_batch, context.n_ctx) * n_vocab * _LOGIT_BYTES)


def load_nothing(path: Path, model: ModelParams, context: ContextParams) -> tuple[int, int]:
    """Load a model and make its context, all but the memory: for a process that does nothing else.

    Returns:
        The size of the vocabulary, and the native context, which must not be decoded with.

    Raises:
        SystemExit: llama.cpp refuses one of them.
    """
    library.start()
    raw: Any = native.llama_model_default_params()
    kept = place(raw, model)
    raw.no_alloc = True
    raw.load_mode = _READ
    handle = native.llama_model_load_from_file(os.fsencode(path), raw)
    del kept
    if not handle:
        raise SystemExit(1)
    planned = native.llama_init_from_model(handle, native_params(context))
    if not planned:
        raise SystemExit(1)
    return int(native.llama_vocab_n_tokens(native.llama_model_get_vocab(handle))), planned
