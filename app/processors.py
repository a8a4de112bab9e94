"""The processors that this process may use, and what other programs do with them."""

from __future__ import annotations

import os
import time

import psutil


def usable_processors() -> frozenset[int]:
    """The hardware threads that this process may run on, by the system's numbers."""
    try:
        return frozenset(os.sched_getaffinity(0))
    except AttributeError:
        return frozenset(range(os.cpu_count() or 1))


def others_seconds() -> float:
    """Seconds that other programs have run on the usable processors, since some moment.

    Programs of a lower priority step aside by themselves and do not count.
    """
    usable = usable_processors()
    try:
        times = psutil.cpu_times(percpu=True)
    except (OSError, RuntimeError, psutil.Error):
        # Some sandboxes keep the counters to themselves; then nobody is seen.
        return 0.0
    rows = [row for index, row in enumerate(times) if index in usable] or times
    ours = time.process_time()
    if hasattr(os, "getpriority") and os.getpriority(os.PRIO_PROCESS, 0) > 0:
        # This process is one of those itself.
        return sum(row.user + row.system + row.nice for row in rows) - ours
    return sum(row.user + row.system for row in rows) - ours
