"""Measuring `app.llama.throughput` in a child process; nothing of llama.cpp is loaded into this one."""

from __future__ import annotations

import json
import math
import subprocess
from dataclasses import dataclass

from app.core.child import ask_python

_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Throughput:
    """How fast weights are computed with.

    Attributes:
        bytes_per_s: Bytes of 4-bit weights per second, the best of many times.
        alone: Whether nothing else took the processor meanwhile; what is not alone may be faster than it seems.
    """

    bytes_per_s: float
    alone: bool = True


def probe_throughput(n_threads: int) -> Throughput | None:
    """The throughput of the device that layers go to first, measured in a child process.

    Args:
        n_threads: For the processor, where there is nothing faster.

    Returns:
        None where it cannot be measured: another release of ggml, no memory, a driver that crashes or hangs.
    """
    code = f"from app.llama.throughput import _tell; _tell({n_threads!r})"
    try:
        done = ask_python(code, _SECONDS)
        found = json.loads(done.stdout.decode("utf-8", errors="replace").strip().rpartition("\n")[2] or "null")
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return None
    if done.returncode != 0 or not isinstance(found, list) or len(found) != 2:
        return None
    bytes_per_s, alone = found
    good = isinstance(bytes_per_s, float) and math.isfinite(bytes_per_s) and bytes_per_s > 0
    return Throughput(bytes_per_s, alone is True) if good else None
