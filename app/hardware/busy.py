"""CPU use of other programs, and of other Tandems among them.

The load average covers a minute and includes this user's last answer, so it only decides whether to sample.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import PureWindowsPath

import psutil

from app.hardware.processors import others_seconds

SAMPLE_S = 0.5
"""Seconds between two samples of what other programs take."""
_QUIET = 0.15
"""Load for each processor below which no one can take much."""


MUCH = 0.3
"""Of all processors, taken by somebody else; less is what every system does beside."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Processor time so far, in seconds.

    Attributes:
        at: When, by a monotonic clock.
        others: Of all other programs.
        tandems: Of each other Tandem among them, by its number.
    """

    at: float
    others: float
    tandems: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Busy:
    """CPU use of others, in CPUs.

    Attributes:
        tandems: Other Tandems.
        others: Programs that are none.
    """

    tandems: float = 0.0
    others: float = 0.0


def taking(who: str, taken: float, processors: int) -> str:
    """Format the CPU use of others; "" if it is ordinary."""
    if taken < MUCH * processors:
        return ""
    return f"{who} {taken:.1f} of {processors} CPU{'s' * (processors != 1)} now"


def busy(processors: int) -> Busy | None:
    """Measure the CPU use of others, for half a second if there is any; None if unknown."""
    if not hasattr(os, "getloadavg"):
        return None
    try:
        if os.getloadavg()[0] < _QUIET * processors:
            return Busy()
        return between(_sample, lambda: time.sleep(SAMPLE_S))
    except (OSError, psutil.Error):
        return None


def between(sample: Callable[[], Sample], wait: Callable[[], object]) -> Busy:
    """Return the CPU use of others between two samples."""
    before = sample()
    wait()
    after = sample()
    seconds = max(after.at - before.at, 1e-3)
    # One that has begun or ended in between cannot be told from the others.
    tandems = sum(max(0.0, spent - before.tandems[n]) for n, spent in after.tandems.items() if n in before.tandems)
    others = after.others - before.others - tandems
    return Busy(tandems / seconds, max(0.0, others) / seconds)


def is_tandem(command: list[str]) -> bool:
    """Return whether a command line starts Tandem."""
    # The installed command is a script, behind an interpreter or not. The path of any system is one of Windows too.
    if any(PureWindowsPath(word).stem.lower() == "tandem" for word in command[:2]):
        return True
    by_module = any(flag == "-m" and f"{module}.".startswith("app.") for flag, module in pairwise(command))
    return by_module and command[0] == sys.executable


def _sample() -> Sample:
    tandems = {}
    for process in psutil.process_iter():
        # Anyone who ends meanwhile, or belongs to somebody else, says nothing.
        with suppress(psutil.Error):
            if process.pid != os.getpid() and is_tandem(process.cmdline()):
                spent = process.cpu_times()
                tandems[process.pid] = spent.user + spent.system
    return Sample(time.monotonic(), others_seconds(), tandems)
