"""The CPUs of this process: their model, threads for llama.cpp, and what slows them down now."""

from __future__ import annotations

import math
import os
import platform
import re
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from app.core.units import counted

_CGROUP_FOLDER = "/sys/fs/cgroup"
CPUINFO = Path("/proc/cpuinfo")
AUTOGROUP = "/proc/sys/kernel/sched_autogroup_enabled"
_READ_BYTES = 8192
"""Bytes that hold the first CPUs of the list; the kernel queries the clock of each CPU that is read."""
_CPU_MODEL_LINE = re.compile(
    rb"^(model name|cpu family|model|stepping|cpu model|cpu|CPU (?:implementer|variant|part)|uarch)[ \t]*:[ \t]*(.+)$",
    re.MULTILINE,
)
_SYSCTL_S = 2.0
_SIBLINGS_FILE = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
_CAPACITY_FILE = "/sys/devices/system/cpu/cpu{}/cpu_capacity"
_PERFORMANCE_CPUS_FILE = "/sys/devices/cpu_core/cpus"
_MAX_CLOCK_FILE = "/sys/devices/system/cpu/cpu{}/cpufreq/{}_max_freq"
_PERFORMANCE_CAPACITY = 0.8
"""Share of the highest capacity above which a core is a performance core."""
_SAMPLE_S = 0.5
"""Interval between two samples of other programs' CPU use."""
_QUIET_LOAD_PER_CPU = 0.15
"""Load per CPU below which other programs cannot use much; it includes this user's last answer."""
BUSY_CPU_SHARE = 0.3
"""Share of all CPUs above which other programs count as busy; every system uses some in the background."""
Read = Callable[[str], str]
"""Return the text of a file, or an empty text if it cannot be read."""


def read_file(path: str) -> str:
    """Return the text of a file, or an empty text if it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def usable_processors() -> frozenset[int]:
    """Return the numbers of the hardware threads that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


@cache
def processor_kind() -> str:
    """Return a key that identifies the CPU model; not a display name."""
    if sys.platform == "linux":
        kind = _linux_kind()
    elif sys.platform == "darwin":
        kind = sysctl("machdep.cpu.brand_string")
    else:
        kind = platform.processor()
    return kind or platform.machine()


def _linux_kind() -> str:
    try:
        with CPUINFO.open("rb", buffering=0) as file:
            lines = set(_CPU_MODEL_LINE.findall(file.read(_READ_BYTES) or b""))
    except OSError:
        return ""
    return ", ".join(sorted(b" ".join(line).decode(errors="replace") for line in lines))


@cache
def sysctl(name: str) -> str:
    """Return a value of macOS, or an empty text if it is unknown or the tool fails."""
    import subprocess

    from app.core.program import limited_run

    try:
        done = limited_run(("/usr/sbin/sysctl", "-n", name), _SYSCTL_S, os.environ)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode(errors="replace").strip()


def usable_cpus(read: Read = read_file) -> float:
    """Return how many CPUs this process may use at once."""
    quota = cpu_quota(read)
    usable = len(usable_processors())
    return usable if quota is None else min(usable, quota)


def used_seconds() -> float:
    """Return the CPU seconds of all programs on the usable CPUs since an arbitrary start."""
    return others_seconds() + sum(os.times()[:4])


def others_seconds() -> float:
    """Return the CPU seconds of other programs on the usable CPUs since an arbitrary start.

    Programs of lower priority do not count if they yield to this process; its ended child processes never count.
    """
    # The first frame does not need this import.
    import psutil

    usable = usable_processors()
    try:
        times = psutil.cpu_times(percpu=True)
    except (OSError, RuntimeError, psutil.Error):
        # Some sandboxes hide the counters.
        return 0.0
    rows = [row for index, row in enumerate(times) if index in usable] or times
    # A process of lower priority competes with others like it.
    lowered = sys.platform != "win32" and os.getpriority(os.PRIO_PROCESS, 0) > 0
    nice = sum(getattr(row, "nice", 0.0) for row in rows) if lowered or _groups_ignore_priority() else 0.0
    return sum(row.user + row.system for row in rows) + nice - sum(os.times()[:4])


def _groups_ignore_priority() -> bool:
    """Return whether Linux shares CPUs equally between sessions, so that `nice` works only within a session."""
    return read_file(AUTOGROUP).strip() == "1"


def busy_cpus(processors: int) -> float | None:
    """Measure how many CPUs other programs use, for half a second if they use any; None if unknown."""
    if not hasattr(os, "getloadavg"):
        return None
    try:
        if os.getloadavg()[0] < _QUIET_LOAD_PER_CPU * processors:
            return 0.0
    except OSError:
        return None
    others = OthersUse()
    time.sleep(_SAMPLE_S)
    return others.cpus


class OthersUse:
    """Average CPU use of other programs since its creation."""

    def __init__(self) -> None:
        self._seconds, self._began = others_seconds(), time.monotonic()

    @property
    def cpus(self) -> float:
        """Return how many CPUs they used; counters that step differently make no negative use."""
        return max(0.0, others_seconds() - self._seconds) / max(time.monotonic() - self._began, 1e-3)

    @property
    def is_much(self) -> bool:
        """Return whether they used so much of the usable CPUs that a measurement in that time is too slow."""
        return self.cpus > BUSY_CPU_SHARE * len(usable_processors())


def busy_text(who: str, cpus: float, processors: int) -> str | None:
    """Describe the CPU use of other programs, unless it is low."""
    if cpus < BUSY_CPU_SHARE * processors:
        return None
    return f"{who} {cpus:.1f} of {counted(processors, 'CPU')} now"


@dataclass(frozen=True, slots=True)
class Conditions:
    """What slows the CPU down now.

    Attributes:
        quota: CPU limit of a container, in CPUs, if any.
        throttled: Share of a container's periods cut short by its quota, if any.
        clock_cap: Allowed clock as a share of the CPU's maximum, if known.
    """

    usable: int = 1
    quota: float | None = None
    others: float | None = None
    throttled: float | None = None
    clock_cap: float | None = None


def conditions(read: Read = read_file) -> Conditions:
    """Measure this machine, for half a second if other programs are busy."""
    usable = len(usable_processors())
    return Conditions(usable, cpu_quota(read), busy_cpus(usable), throttled_share(read), _clock_cap(read))


def _clock_cap(read: Read) -> float | None:
    """Return the lowest clock limit of the usable CPUs, because threads wait for the slowest."""
    limits = [
        [read(_MAX_CLOCK_FILE.format(cpu, key)).strip() for key in ("scaling", "cpuinfo")]
        for cpu in usable_processors()
    ]
    known = [list(map(int, pair)) for pair in limits if all(map(str.isdecimal, pair))]
    return min((allowed / most for allowed, most in known if allowed and most), default=None)


def cgroup_folders(read: Read) -> list[str]:
    """Return the control groups (version 2) of this process, inner groups first, the root last."""
    membership = re.search(r"^0::(/.*)$", read("/proc/self/cgroup"), re.MULTILINE)
    group = membership.group(1).rstrip("/") if membership else ""
    # In a container, the path may be the host's and not exist; the root is then the container's own group.
    inner = [_CGROUP_FOLDER + group[:end] for end in range(len(group), 0, -1) if group[end : end + 1] in ("", "/")]
    return [*inner, _CGROUP_FOLDER]


def cpu_quota(read: Read) -> float | None:
    """Return the CPU limit of the tightest group in CPUs, if any."""
    texts = [read(f"{folder}/cpu.max") for folder in cgroup_folders(read)]
    found = [re.fullmatch(r"([1-9][0-9]{0,14}) ([1-9][0-9]{0,14})", text.strip()) for text in texts]
    return min((int(one[1]) / int(one[2]) for one in found if one is not None), default=None)


def throttled_share(read: Read) -> float | None:
    """Return the share of periods throttled by the quota, if any."""
    for folder in cgroup_folders(read):
        counters = dict(re.findall(r"^(nr_\w+) ([0-9]{1,18})$", read(f"{folder}/cpu.stat"), re.MULTILINE))
        if periods := int(counters.get("nr_periods", 0)):
            return int(counters.get("nr_throttled", 0)) / periods
    return None


def default_threads(read: Read = read_file) -> int:
    """Return the physical cores of this process; a second thread on a core slows token generation.

    On Apple silicon only performance cores count, as in llama.cpp: all threads would wait for the efficiency cores. A
    container's quota counts too: threads beyond it are stopped within a batch, and the others wait.
    """
    return _within_quota(_apple_performance_cores() or _n_cores(usable_processors(), read), read)


def thread_candidates(read: Read = read_file) -> tuple[int, ...]:
    """Return thread counts to try: half the cores, performance cores, all cores, all hardware threads."""
    allowed = usable_processors()
    cores = _n_cores(allowed, read)
    performance = _apple_performance_cores() or len(_cores(_performance_cpus(allowed, read), read))
    counts = {cores // 2, performance, cores, len(allowed)}
    return tuple(sorted({_within_quota(n, read) for n in counts if n > 0}))


def _within_quota(n: int, read: Read) -> int:
    quota = cpu_quota(read)
    return max(1, n if quota is None else min(n, math.floor(quota)))


def _n_cores(cpus: frozenset[int], read: Read) -> int:
    found = len(_cores(cpus, read))
    if found < len(cpus) or sys.platform == "linux":
        return found
    # Windows and macOS report only the whole machine. The first frame does not need this import.
    import psutil

    with suppress(OSError, RuntimeError):
        return min(found, psutil.cpu_count(logical=False) or found)
    return found


def _cores(cpus: frozenset[int], read: Read) -> set[str]:
    return {read(_SIBLINGS_FILE.format(cpu)).strip() or str(cpu) for cpu in cpus}


def _performance_cpus(cpus: frozenset[int], read: Read) -> frozenset[int]:
    """Return the CPUs on performance cores, or all CPUs if the system does not distinguish them."""
    hybrid = _parse_cpu_list(read(_PERFORMANCE_CPUS_FILE))
    if hybrid:
        return cpus & hybrid or cpus
    capacities = {cpu: int(text) for cpu in cpus if (text := read(_CAPACITY_FILE.format(cpu)).strip()).isdecimal()}
    if len(capacities) < len(cpus):
        return cpus
    least = _PERFORMANCE_CAPACITY * max(capacities.values())
    return frozenset(cpu for cpu, capacity in capacities.items() if capacity >= least)


def _apple_performance_cores() -> int:
    text = sysctl("hw.perflevel0.physicalcpu") if sys.platform == "darwin" else ""
    return int(text) if text.isdecimal() else 0


def _parse_cpu_list(text: str) -> frozenset[int]:
    if not re.fullmatch(r"[0-9]{1,5}(-[0-9]{1,5})?(,[0-9]{1,5}(-[0-9]{1,5})?)*", text.strip()):
        return frozenset()
    ends = [part.partition("-") for part in text.strip().split(",")]
    return frozenset(n for first, _, last in ends for n in range(int(first), int(last or first) + 1))
