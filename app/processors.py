"""The processors that this process may use, and what other programs do with them."""

from __future__ import annotations

import os


def usable_processors() -> frozenset[int]:
    """The hardware threads that this process may run on, by the system's numbers."""
    try:
        return frozenset(os.sched_getaffinity(0))
    except AttributeError:
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
    lowered = hasattr(os, "getpriority") and os.getpriority(os.PRIO_PROCESS, 0) > 0
    return sum(row.user + row.system + (row.nice if lowered else 0.0) for row in rows) - sum(os.times()[:4])
