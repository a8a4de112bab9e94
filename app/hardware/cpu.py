"""How many threads are worth giving to llama.cpp."""

from __future__ import annotations

import math
import re
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path

from app.hardware.cgroup import Read, cpu_quota
from app.hardware.processors import usable_processors

_TOPOLOGY = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
_CAPACITY = "/sys/devices/system/cpu/cpu{}/cpu_capacity"
_HYBRID = "/sys/devices/cpu_core/cpus"
_TOOL_S = 2.0
_STRONG = 0.8
"""Of the strongest core's capacity: a core above it is one of the strong ones."""


def read_file(path: str) -> str:
    """A `Read` of this machine."""
    try:
        return Path(path).read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""


def affinity() -> int:
    """Hardware threads that this process may run on."""
    return len(usable_processors())


def default_threads(read: Read = read_file) -> int:
    """Physical cores that this process may use; a second thread on one core slows token generation.

    On an Apple processor only the strong ones, as llama.cpp itself has it: all threads would wait for those on weak
    ones. A container's quota counts too: threads beyond it are stopped in the middle of a batch, and the others wait.
    """
    return _within_quota(_apple_strong() or _n_cores(usable_processors(), read), read)


def thread_candidates(read: Read = read_file) -> tuple[int, ...]:
    """Numbers of threads worth trying, increasing: half the cores, the strong ones, all, all hardware threads."""
    allowed = usable_processors()
    cores = _n_cores(allowed, read)
    strong = _apple_strong() or len(_cores(_strong(allowed, read), read))
    wanted = {cores // 2, strong, cores, len(allowed)}
    return tuple(sorted({_within_quota(n, read) for n in wanted if n > 0}))


def _within_quota(n: int, read: Read) -> int:
    quota = cpu_quota(read)
    return max(1, n if quota is None else min(n, math.floor(quota)))


def _n_cores(cpus: frozenset[int], read: Read) -> int:
    """How many cores these processors are; every one, where the system does not tell which of them share one."""
    found = len(_cores(cpus, read))
    if found < len(cpus) or sys.platform == "linux":
        return found
    # Windows and macOS tell it by a call, and only of the whole machine. The first frame does not ask.
    import psutil

    with suppress(OSError, RuntimeError):
        return min(found, psutil.cpu_count(logical=False) or found)
    return found


def _cores(cpus: frozenset[int], read: Read) -> set[str]:
    return {read(_TOPOLOGY.format(cpu)).strip() or str(cpu) for cpu in cpus}


def _strong(cpus: frozenset[int], read: Read) -> frozenset[int]:
    """The performance cores, of a processor that has weaker ones besides; all where it does not tell."""
    hybrid = _listed(read(_HYBRID))
    if hybrid:
        return cpus & hybrid or cpus
    capacities = {cpu: int(text) for cpu in cpus if (text := read(_CAPACITY.format(cpu)).strip()).isdecimal()}
    if len(capacities) < len(cpus):
        return cpus
    least = _STRONG * max(capacities.values())
    return frozenset(cpu for cpu, capacity in capacities.items() if capacity >= least)


@cache
def _apple_strong() -> int:
    """Performance cores of an Apple processor; 0 elsewhere."""
    if sys.platform != "darwin":
        return 0
    from app.hardware.system import RealSystem, ToolError

    with suppress(ToolError):
        text = RealSystem().run("sysctl", "-n", "hw.perflevel0.physicalcpu", seconds=_TOOL_S).strip()
        return int(text) if text.isdecimal() else 0
    return 0


def _listed(text: str) -> frozenset[int]:
    """The numbers of a list such as "0-7,16"; () of what is none."""
    if not re.fullmatch(r"[0-9]{1,5}(-[0-9]{1,5})?(,[0-9]{1,5}(-[0-9]{1,5})?)*", text.strip()):
        return frozenset()
    ends = [part.partition("-") for part in text.strip().split(",")]
    return frozenset(n for first, _, last in ends for n in range(int(first), int(last or first) + 1))
