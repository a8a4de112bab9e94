"""Who else computes at this moment: other Tandems, and everything that is none.

The system's own figure, the load, is a mean of the last minute. It counts the answer that this very user has just had,
so it only says whether a look is worth half a second.
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
"""Load for each processor below which nobody can take much."""


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
    """What others take, in processors.

    Attributes:
        tandems: Other Tandems.
        others: Programs that are none.
    """

    tandems: float = 0.0
    others: float = 0.0


def taking(who: str, taken: float, processors: int) -> str:
    """Who takes how much, as a clause; "" where that is no more than what every system does beside."""
    if taken < MUCH * processors:
        return ""
    return f"{who} {taken:.1f} of {processors} CPU{'s' * (processors != 1)} now"


def busy(processors: int) -> Busy | None:
    """What others take now; half a second's work if they take anything. None where the system does not tell."""
    if not hasattr(os, "getloadavg"):
        return None
    try:
        if os.getloadavg()[0] < _QUIET * processors:
            return Busy()
        return between(_sample, lambda: time.sleep(SAMPLE_S))
    except (OSError, psutil.Error):
        return None


def between(sample: Callable[[], Sample], wait: Callable[[], object]) -> Busy:
    """What others took between two samples."""
    before = sample()
    wait()
    after = sample()
    seconds = max(after.at - before.at, 1e-3)
    # One that has begun or ended in between cannot be told from the others.
    tandems = sum(max(0.0, spent - before.tandems[n]) for n, spent in after.tandems.items() if n in before.tandems)
    others = after.others - before.others - tandems
    return Busy(tandems / seconds, max(0.0, others) / seconds)


def is_tandem(command: list[str]) -> bool:
    """Whether a command line is that of a Tandem."""
    # The installed command is a script, behind an interpreter or not. The path of any system is one of Windows too.
    if any(PureWindowsPath(word).stem.lower() == "tandem" for word in command[:2]):
        return True
    by_module = any(flag == "-m" and f"{module}.".startswith("app.") for flag, module in pairwise(command))
    return by_module and command[0] == sys.executable


def _sample() -> Sample:
    tandems = {}
    for process in psutil.process_iter():
        # Whoever ends meanwhile, or belongs to somebody else, says nothing.
        with suppress(psutil.Error):
            if process.pid != os.getpid() and is_tandem(process.cmdline()):
                spent = process.cpu_times()
                tandems[process.pid] = spent.user + spent.system
    return Sample(time.monotonic(), others_seconds(), tandems)
