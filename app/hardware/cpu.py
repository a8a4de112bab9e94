"""CPU limits of containers, and how many threads to give llama.cpp."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

from app.hardware.processors import usable_processors

ROOT = "/sys/fs/cgroup"
Read = Callable[[str], str]
"""The text of a file; empty if it cannot be read."""


def cgroup_folders(read: Read) -> list[str]:
    """Folders of the groups that this process is in, inner ones first, the root last (version 2)."""
    return _inside(ROOT, r"0::", read)


def older_cgroup_folders(read: Read, controller: str) -> list[str]:
    """The same for version 1, where each controller has groups of its own, such as "cpu" and "memory"."""
    return _inside(f"{ROOT}/{controller}", rf"[0-9]+:(?:[^:\n]*,)?{controller}(?:,[^:\n]*)?:", read)


def _inside(root: str, hierarchy: str, read: Read) -> list[str]:
    membership = re.search(rf"^{hierarchy}(/.*)$", read("/proc/self/cgroup"), re.MULTILINE)
    group = membership.group(1).rstrip("/") if membership else ""
    # Inside a container the path may be the host's and not exist here; the root is then the container's own group.
    inner = [root + group[:end] for end in range(len(group), 0, -1) if group[end : end + 1] in ("", "/")]
    return [*inner, root]


def cpu_quota(read: Read) -> float | None:
    """Return the CPU limit of the tightest group in CPUs; None without one."""
    texts = [read(f"{folder}/cpu.max") for folder in cgroup_folders(read)]
    # In the older layout -1 is no limit.
    for folder in older_cgroup_folders(read, "cpu"):
        texts.append(" ".join(read(f"{folder}/cpu.cfs_{name}_us").strip() for name in ("quota", "period")))
    found = [re.fullmatch(r"([1-9][0-9]{0,14}) ([1-9][0-9]{0,14})", text.strip()) for text in texts]
    return min((int(one[1]) / int(one[2]) for one in found if one is not None), default=None)


def throttled_share(read: Read) -> float | None:
    """Return the share of periods throttled by the quota; None without one."""
    for folder in (*cgroup_folders(read), *older_cgroup_folders(read, "cpu")):
        counters = dict(re.findall(r"^(nr_\w+) ([0-9]{1,18})$", read(f"{folder}/cpu.stat"), re.MULTILINE))
        if periods := int(counters.get("nr_periods", 0)):
            return int(counters.get("nr_throttled", 0)) / periods
    return None


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
    """Count the hardware threads that this process may use."""
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
    """Count the cores of these CPUs; each CPU counts if the topology is unknown."""
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
