"""Ask llama.cpp how much memory a load takes, before it allocates any.

A load with `no_alloc` lays out weights, KV cache and compute buffers, and logs the sizes of caches and buffers. It runs
in a child process, because a model file or a driver may end the process.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from app.core.child import ask_python
from app.llama import library
from app.llama.context import native_params
from app.llama.library import native
from app.llama.params import ContextParams, ModelParams
from app.llama.placement import place

_SECONDS = 60.0
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
    question = json.dumps({"path": str(path), "model": asdict(model), "context": asdict(context)})
    try:
        done = ask_python("from app.llama.footprint import _tell; _tell()", _SECONDS, question.encode())
        return read_log(json.loads(done.stdout.splitlines()[-1])) if done.returncode == 0 else None
    except (OSError, subprocess.TimeoutExpired, ValueError, TypeError, IndexError):
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


def _tell() -> None:
    """Answer `measure`, in the child."""
    question = json.load(sys.stdin)
    tuples = {name: tuple(question["model"][name]) for name in ("devices", "tensor_split")}
    model = ModelParams(**{**question["model"], **tuples})
    lines: list[bytes] = []
    library.start()
    callback = native.llama_log_callback(lambda level, text, _: lines.append(text))
    native.llama_log_set(callback, ctypes.c_void_p(0))
    load_nothing(Path(question["path"]), model, ContextParams(**question["context"]))
    sys.stdout.write(json.dumps(b"".join(lines).decode("utf-8", errors="replace")) + "\n")
    sys.stdout.flush()
    # Nothing to free; a driver that crashes on exit has answered already.
    os._exit(0)


def load_nothing(path: Path, model: ModelParams, context: ContextParams) -> None:
    """Load a model and make its context without memory, in a process that does nothing else.

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
    if not handle or not native.llama_init_from_model(handle, native_params(context)):
        raise SystemExit(1)
