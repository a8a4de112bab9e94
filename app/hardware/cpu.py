"""How many threads are worth giving to llama.cpp."""

from __future__ import annotations

import os
from pathlib import Path

_SIBLINGS = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"


def default_threads() -> int:
    """Physical cores that this process may run on; a second thread on one core slows token generation.

    Where the operating system does not tell which processors share a core, every processor counts.
    """
    try:
        allowed = os.sched_getaffinity(0)
    except AttributeError:
        return max(1, os.cpu_count() or 1)
    return max(1, len({_core(cpu) for cpu in allowed}))


def _core(cpu: int) -> str:
    try:
        return Path(_SIBLINGS.format(cpu)).read_text().strip()
    except OSError:
        return str(cpu)
