"""Read a model's files into the page cache, with progress.

llama.cpp maps a file and lets the system read all of it in one call, before its first progress report.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

from app.models.split_model import parts_here

_CHUNK = 8 << 20


def read_ahead(path: Path, told: Callable[[float], bool]) -> bool:
    """Read the parts of a model's files that the page cache lacks.

    Files larger than the available memory are skipped: the system would drop their beginning again. So is every file
    where the system cannot say what it has cached: to read that again takes time.

    Args:
        path: The model file; the first part of a split model.
        told: Called with the share of bytes read; returns False to stop.

    Returns:
        Whether it was not stopped.
    """
    try:
        return _read(parts_here(path), told)
    except OSError:
        # llama.cpp reports the problem with the file.
        return True


def _read(files: Sequence[Path], told: Callable[[float], bool]) -> bool:
    sizes = [file.stat().st_size for file in files]
    total, done = sum(sizes), 0
    if sys.platform != "linux" or total > psutil.virtual_memory().available:
        return True
    buffer = bytearray(_CHUNK)
    for file, size in zip(files, sizes, strict=True):
        with file.open("rb", buffering=0) as stream:
            for start in range(0, size, _CHUNK):
                end = min(start + _CHUNK, size)
                if not _is_cached(stream.fileno(), start, end):
                    stream.seek(start)
                    stream.readinto(buffer)
                done += end - start
                if not told(done / total):
                    return False
    return True


def _is_cached(descriptor: int, start: int, end: int) -> bool:
    """Return whether the first and the last page of a range are in the page cache; False if the system cannot say."""
    if sys.platform != "linux":
        return False
    try:
        return all(os.preadv(descriptor, [bytearray(1)], at, os.RWF_NOWAIT) for at in (start, end - 1))
    except OSError:
        return False
