"""Load model weights with one progress value."""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from app.core import regular_file
from app.core.errors import Interrupted, UsageError
from app.llama import library
from app.llama.devices import graphics, memory_type
from app.llama.library import native
from app.llama.native_errors import load_error
from app.llama.params import CPU_LABEL, MAX_DEVICES
from app.models.model_names import parts_here
from app.settings.model_params import ModelParams
from app.settings.placement import CPU, split_override

_SPLIT_NONE = 0


def place(raw: Any, params: ModelParams) -> tuple[Any, ...]:
    """Write the placement into a `llama_model_params`; return what must live until the model is freed.

    Raises UsageError for an unknown device: llama.cpp would follow the pointer.
    """
    kept: list[Any] = []
    raw.n_gpu_layers = params.n_gpu_layers
    raw.load_mtp = params.load_mtp
    if not params.split:
        raw.split_mode = _SPLIT_NONE
        raw.main_gpu = 0
    used = _named(params.devices)
    if missing := [name for name, handle in used.items() if handle is None]:
        here = ", ".join([*graphics(), CPU])
        raise UsageError(f"llama.cpp has no device {', '.join(missing)} here.", f"It has: {here}.")
    # llama.cpp itself would prefer a software renderer to the CPU.
    if params.devices or used != graphics():
        array = (ctypes.c_void_p * (len(used) + 1))(*used.values(), None)
        raw.devices = ctypes.addressof(array)
        kept.append(array)
    if params.tensor_split:
        # llama.cpp copies this many, however many devices there are.
        shares = (ctypes.c_float * max(MAX_DEVICES, native.llama_max_devices()))(*params.tensor_split)
        raw.tensor_split = ctypes.cast(shares, ctypes.POINTER(ctypes.c_float))
        kept.append(shares)
    if params.all_overrides:
        table = _overrides(params, used)
        raw.tensor_buft_overrides = ctypes.addressof(table)
        kept.append(table)
    return tuple(kept)


class _Override(ctypes.Structure):
    """`llama_model_tensor_buft_override`."""

    _fields_ = (("pattern", ctypes.c_char_p), ("buffer_type", ctypes.c_void_p))


def _overrides(params: ModelParams, used: Mapping[str, int | None]) -> ctypes.Array[_Override]:
    """Return the overrides with the buffer types of their devices, ended by an empty entry.

    llama.cpp would abort the process in the first batch if a device held no layers of the model.
    """
    memory = {name.lower(): memory_type(handle) for name, handle in used.items()}
    memory[CPU] = memory_type(None)
    rows = []
    for pattern, device in map(split_override, params.all_overrides):
        if not memory.get(device.lower()):
            raise UsageError(
                f"An override of tensors names {device}, which holds no layers of the target.",
                f"Name one of {', '.join([*used, CPU])}, or add it (⟨model.device⟩).",
            )
        rows.append(_Override(pattern.encode(), memory[device.lower()]))
    return (_Override * (len(rows) + 1))(*rows)


def _named(names: tuple[str, ...]) -> Mapping[str, int | None]:
    """Return native pointers of devices by name, ignoring case; None for a missing device.

    The result is empty for ("cpu",); () stands for the devices that llama.cpp chooses.
    """
    if not names:
        return graphics(software=False)
    known = {name.lower(): handle for name, handle in graphics().items()}
    return {name: known.get(name.lower()) for name in names if name != CPU}


def devices_of(params: ModelParams) -> Mapping[str, int | None]:
    """Return the devices that hold the layers, with native pointers, also if the choice is llama.cpp's; {} is the CPU.

    A missing device has no pointer.
    """
    return {} if params.on_cpu else _named(params.devices)


def label(params: ModelParams) -> str:
    """Return a short label of the devices that hold the layers."""
    return " + ".join(devices_of(params)) or CPU_LABEL


_MMAP_MODE, _READ_MODE = 1, 0
_READ_SHARE, _READ_SHARE_BESIDE_DEVICE = 0.9, 0.5
"""Share of the progress for reading the file; the rest is for placing it in memory or on a device."""


def load(path: Path, params: ModelParams, on_progress: Callable[[float], bool]) -> tuple[Any, Any]:
    """Load weights; return the native model, and what must outlive it, because it holds bare pointers to it.

    See `app.llama.model.Model` for arguments and errors.
    """
    raw = native.llama_model_default_params()
    placement = place(raw, params)
    raw.load_mode = _MMAP_MODE if native.llama_supports_mmap() else _READ_MODE
    read = 0.0
    if raw.load_mode == _MMAP_MODE:
        read = _READ_SHARE_BESIDE_DEVICE if devices_of(params) else _READ_SHARE
        if not read_ahead(path, lambda share: on_progress(read * share)):
            raise Interrupted
    goes_on = True
    failure: BaseException | None = None

    def progress(share: float, _: object) -> bool:
        nonlocal goes_on, failure
        try:
            if not share:
                # The buffers exist, but nothing is written to them.
                prefer_huge_pages()
            goes_on = on_progress(read + (1 - read) * share)
        except BaseException as error:
            # C has no exceptions, so this exception is raised below.
            goes_on, failure = False, error
        return goes_on

    callback = native.llama_progress_callback(progress)
    raw.progress_callback = callback
    library.clear_errors()
    handle = native.llama_model_load_from_file(os.fsencode(path), raw)
    if failure is not None:
        if handle:
            # Everything is loaded at the last call.
            native.llama_model_free(handle)
        raise failure
    if handle:
        return handle, (placement, callback)
    if not goes_on:
        raise Interrupted
    fix = "The file may be cut short (download it again), or newer than this llama.cpp."
    raise load_error(path.name, f"llama.cpp could not load {path}", fix)


_LARGE_BYTES = 32 << 20
"""Smallest buffer for huge pages."""


def prefer_huge_pages() -> None:
    """Let Linux use pages of 2 MB for large buffers.

    Every token reads all weights, and the CPU caches only a limited number of page addresses.
    """
    if sys.platform != "linux":
        return
    madvise = ctypes.CDLL(None).madvise
    with suppress(OSError):
        for line in Path("/proc/self/maps").read_text().splitlines():
            place, access, _, _, *file = line.split()
            start, end = (int(edge, 16) for edge in place.split("-"))
            if (access, file) == ("rw-p", ["0"]) and end - start >= _LARGE_BYTES:
                madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), mmap.MADV_HUGEPAGE)


_CHUNK_BYTES = 8 << 20


def read_ahead(path: Path, on_progress: Callable[[float], bool]) -> bool:
    """Read a model's files, given the first, into the page cache; return False if `on_progress` stopped it.

    Works only on Linux. Files larger than the available memory are skipped: the system would drop their beginning
    again.
    """
    files = parts_here(path)
    total, done = sum(map(_size, files)), 0
    if sys.platform != "linux" or total > psutil.virtual_memory().available:
        return True
    buffer = bytearray(_CHUNK_BYTES)
    # llama.cpp reports an unreadable file.
    with suppress(OSError):
        for file in files:
            if not (size := _size(file)):
                continue
            with file.open("rb", buffering=0) as stream:
                for start in range(0, size, _CHUNK_BYTES):
                    end = min(start + _CHUNK_BYTES, size)
                    if not _is_cached(stream.fileno(), start, end):
                        stream.seek(start)
                        stream.readinto(buffer)
                    done += end - start
                    if not on_progress(done / total):
                        return False
    return True


def _is_cached(descriptor: int, start: int, end: int) -> bool:
    """Return whether the first and last page of a range are in the page cache; False if unknown."""
    if sys.platform != "linux":
        return False
    try:
        return all(os.preadv(descriptor, [bytearray(1)], at, os.RWF_NOWAIT) for at in (start, end - 1))
    except OSError:
        return False


def _size(file: Path) -> int:
    try:
        return regular_file.status(file).st_size
    except OSError:
        # The load reports a missing file, or a pipe.
        return 0


class PairProgress:
    """Combines the progress of the files of a pair, by role, into one share of their bytes; False cancels."""

    def __init__(self, on_progress: Callable[[float], bool], **models: Path | None) -> None:
        self._on_progress = on_progress
        self._n_bytes = {name: sum(map(_size, parts_here(path))) for name, path in models.items() if path is not None}
        self._shares = dict.fromkeys(self._n_bytes, 0.0)

    def __call__(self, name: str, share: float) -> bool:
        self._shares[name] = share
        done = sum(self._shares[one] * size for one, size in self._n_bytes.items())
        return self._on_progress(done / max(1, sum(self._n_bytes.values())))
