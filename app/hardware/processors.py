"""The CPUs that this process may use, their model, and their use by other programs."""

from __future__ import annotations

import os
import platform
import re
import sys
from functools import cache
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")
_AUTOGROUP = Path("/proc/sys/kernel/sched_autogroup_enabled")
_ENOUGH = 8192
"""Bytes that hold the first processors of the list; the kernel asks every one that it is read of for its clock."""
_MODEL = re.compile(
    rb"^(model name|cpu family|model|stepping|cpu model|cpu|CPU (?:implementer|variant|part)|uarch)[ \t]*:[ \t]*(.+)$",
    re.MULTILINE,
)
_SYSCTL = ("/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string")
_TOOL_S = 2.0


def usable_processors() -> frozenset[int]:
    """The hardware threads that this process may run on, by the system's numbers."""
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


@cache
def processor_kind() -> str:
    """Return a key that identifies the CPU model; not a display name."""
    told = {"linux": _of_linux, "darwin": _of_apple}.get(sys.platform, platform.processor)()
    # At least what kind of a machine it is.
    return told or platform.machine()


def _of_linux() -> str:
    try:
        with _CPUINFO.open("rb", buffering=0) as file:
            lines = set(_MODEL.findall(file.read(_ENOUGH) or b""))
    except OSError:
        return ""
    return ", ".join(sorted(b" ".join(line).decode(errors="replace") for line in lines))


def _of_apple() -> str:
    import subprocess

    from app.core.program import limited_run

    try:
        return limited_run(_SYSCTL, _TOOL_S, os.environ).stdout.decode(errors="replace").strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


def others_seconds() -> float:
    """Return the CPU seconds of other programs on the usable CPUs since an arbitrary start.

    Programs of lower priority do not count if they yield to this one; its ended child processes never count.
    """
    # The first frame counts no one's seconds.
    import psutil

    usable = usable_processors()
    try:
        times = psutil.cpu_times(percpu=True)
    except (OSError, RuntimeError, psutil.Error):
        # Some sandboxes keep the counters to themselves; then no one is seen.
        return 0.0
    rows = [row for index, row in enumerate(times) if index in usable] or times
    # A process of lower priority competes with others like it.
    lowered = sys.platform != "win32" and os.getpriority(os.PRIO_PROCESS, 0) > 0
    nice = sum(getattr(row, "nice", 0.0) for row in rows) if lowered or _groups_ignore_priority() else 0.0
    return sum(row.user + row.system for row in rows) + nice - sum(os.times()[:4])


@cache
def _groups_ignore_priority() -> bool:
    """Return whether Linux shares CPUs equally between sessions, so that `nice` works only within one."""
    try:
        return _AUTOGROUP.read_text().strip() == "1"
    except OSError:
        return False
