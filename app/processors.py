"""The processors that this process may use, and what other programs do with them."""

from __future__ import annotations

import os
import sys


def usable_processors() -> frozenset[int]:
    """The hardware threads that this process may run on, by the system's numbers."""
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


def others_seconds() -> float:
    """Seconds that other programs have run on the usable processors, since some moment.

    Programs of a lower priority step aside by themselves and do not count, nor do processes of this one's own that
    have ended.
    """
    # The first frame counts nobody's seconds.
    import psutil

    usable = usable_processors()
    try:
        times = psutil.cpu_times(percpu=True)
    except (OSError, RuntimeError, psutil.Error):
        # Some sandboxes keep the counters to themselves; then nobody is seen.
        return 0.0
    rows = [row for index, row in enumerate(times) if index in usable] or times
    # A process of lower priority finds itself among those that step aside.
    lowered = sys.platform != "win32" and os.getpriority(os.PRIO_PROCESS, 0) > 0
    nice = sum(getattr(row, "nice", 0.0) for row in rows) if lowered else 0.0
    return sum(row.user + row.system for row in rows) + nice - sum(os.times()[:4])
