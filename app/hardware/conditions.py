"""Reasons for a slow CPU now: other programs, container quota, heat, power saving.

Read from the system's own counters, on Linux; elsewhere most of it is not known and None.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from app.hardware.busy import Busy, busy
from app.hardware.cpu import affinity, cpu_quota, throttled_share
from app.hardware.system import RealSystem, System

_CPUS = "/sys/devices/system/cpu"
_PAGE = 4096
_SAMPLES = 64


@dataclass(frozen=True, slots=True)
class Conditions:
    """The state of the CPU.

    Attributes:
        usable: Hardware threads that this process may run on.
        processors: Hardware threads of the whole machine.
        quota: Processors' worth of time that a container grants; None without a limit.
        busy: What others take of the processors now; None where it is not told.
        throttled: Share of a container's time slices that were cut short since it began; None outside of one.
        clock_cap: Allowed clock against the processor's highest; None where it is not told.
        heat_events: How often a core was slowed down by heat since the start of the system; None the same.
    """

    usable: int = 1
    processors: int = 1
    quota: float | None = None
    busy: Busy | None = None
    throttled: float | None = None
    clock_cap: float | None = None
    heat_events: int | None = None


def conditions(system: System | None = None) -> Conditions:
    """Measure this machine; takes half a second if other programs are busy."""
    system = system or RealSystem()
    processors = max(affinity(), os.cpu_count() or 1)
    return Conditions(
        usable=affinity(),
        processors=processors,
        quota=cpu_quota(system.read),
        busy=busy(processors),
        throttled=throttled_share(system.read),
        clock_cap=_clock_cap(system),
        heat_events=_heat_events(system),
    )


def resident_share(path: Path) -> float | None:
    """Return the share of a file in the page cache, by samples; None if unknown.

    A read that may not wait is refused for pages that are not in memory (Linux, RWF_NOWAIT).
    """
    flag = getattr(os, "RWF_NOWAIT", None)
    if flag is None or not hasattr(os, "preadv"):
        return None
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    found, buffer = 0, bytearray(1)
    try:
        size = os.fstat(descriptor).st_size
        n = max(1, min(_SAMPLES, size // _PAGE))
        for index in range(n):
            try:
                found += os.preadv(descriptor, [buffer], index * size // n, flag)
            except BlockingIOError:
                continue
    except OSError:
        # Some file systems do not know the flag.
        return None
    finally:
        os.close(descriptor)
    return found / n


def _clock_cap(system: System) -> float | None:
    """Return the lowest clock limit of any CPU: threads wait for the slowest."""
    caps = []
    for name in system.names(_CPUS):
        if re.fullmatch(r"cpu[0-9]+", name):
            limits = [system.read(f"{_CPUS}/{name}/cpufreq/{key}_max_freq").strip() for key in ("scaling", "cpuinfo")]
            if all(limit.isdecimal() and int(limit) > 0 for limit in limits):
                caps.append(int(limits[0]) / int(limits[1]))
    return min(caps, default=None)


def _heat_events(system: System) -> int | None:
    texts = [
        system.read(f"{_CPUS}/{name}/thermal_throttle/core_throttle_count").strip()
        for name in system.names(_CPUS)
        if re.fullmatch(r"cpu[0-9]+", name)
    ]
    counts = [int(text) for text in texts if text.isdecimal()]
    return max(counts, default=None)
