"""Reasons for a slow CPU now: other programs, a container's quota, a limited clock."""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass

import psutil

from app.hardware.cpu import cpu_quota, others_seconds, throttled_share, usable_processors
from app.hardware.system import System

_CPUS = "/sys/devices/system/cpu"
SAMPLE_S = 0.5
"""Seconds between two samples of the CPU use of other programs."""
_QUIET = 0.15
"""Load per CPU below which other programs cannot use much; it also includes this user's last answer."""
_MUCH = 0.3
"""Share of all CPUs; every system uses less in the background."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """The state of the CPU.

    Attributes:
        usable: Hardware threads that this process may use.
        quota: CPU limit of a container, in CPUs; None without one.
        others: CPUs that other programs use now; None if unknown.
        throttled: Share of a container's periods that its quota cut short; None without a quota.
        clock_cap: Allowed clock over the CPU's maximum; None if unknown.
    """

    usable: int = 1
    quota: float | None = None
    others: float | None = None
    throttled: float | None = None
    clock_cap: float | None = None


def conditions(system: System | None = None) -> Conditions:
    """Measure this machine, for half a second if other programs are busy."""
    system = system or System()
    usable = len(usable_processors())
    return Conditions(
        usable=usable,
        quota=cpu_quota(system.read),
        others=busy_cpus(usable),
        throttled=throttled_share(system.read),
        clock_cap=_clock_cap(system),
    )


def busy_cpus(processors: int) -> float | None:
    """Measure how many of the CPUs other programs use, for half a second if any; None if unknown."""
    if not hasattr(os, "getloadavg"):
        return None
    try:
        if os.getloadavg()[0] < _QUIET * processors:
            return 0.0
        before, started = others_seconds(), time.monotonic()
        time.sleep(SAMPLE_S)
        return max(0.0, (others_seconds() - before) / (time.monotonic() - started))
    except (OSError, psutil.Error):
        return None


def busy_text(who: str, cpus: float, processors: int) -> str:
    """Format the CPU use of other programs; "" if it is ordinary."""
    if cpus < _MUCH * processors:
        return ""
    return f"{who} {cpus:.1f} of {processors} CPU{'s' * (processors != 1)} now"


def _clock_cap(system: System) -> float | None:
    """Return the lowest clock limit of any CPU: threads wait for the slowest."""
    caps = []
    for name in system.names(_CPUS):
        if re.fullmatch(r"cpu[0-9]+", name):
            limits = [system.read(f"{_CPUS}/{name}/cpufreq/{key}_max_freq").strip() for key in ("scaling", "cpuinfo")]
            if all(limit.isdecimal() and int(limit) > 0 for limit in limits):
                caps.append(int(limits[0]) / int(limits[1]))
    return min(caps, default=None)
