"""Measured memory bandwidth of this machine.

Two looks at the same list must not disagree, and a moment in which something else runs must not decide which pairs
are called slow. So a measurement holds for long if nothing disturbed it, for an hour if something did, and a new one
replaces an old one only where they differ by more than such measurements do.
"""

from __future__ import annotations

import hashlib
import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.core import json_file
from app.llama.probe import Device, Throughput, probe_throughput

FORMAT = 1
_DAY_S = 86_400.0
_ALONE_S, _DISTURBED_S = 30 * _DAY_S, _DAY_S / 24
"""For how long a measurement is believed."""
_NOISE = 1.15
"""Two measurements of one machine are this far apart without anything having changed."""
log = logging.getLogger("tandem.memory")
log.addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True)
class Remembered:
    """A measurement, and when it was made, in seconds since 1970."""

    found: Throughput
    at: float

    def holds(self, now: float) -> bool:
        """Return whether it is still believed; one of the future, by a clock that was set back, is not."""
        return 0 <= now - self.at < (_ALONE_S if self.found.alone else _DISTURBED_S)


def weights_per_second(
    build: str,
    processor: str,
    devices: Sequence[Device],
    n_threads: int,
    folder: Path,
    *,
    measure: Callable[[int], Throughput | None] = probe_throughput,
    clock: Callable[[], float] = time.time,
) -> Throughput | None:
    """Return how fast weights are computed with, as it was measured for this build on this machine.

    Args:
        build: The identity of the installed llama.cpp.
        processor: Its name.
        devices: What the build lists, where it was asked.
        n_threads: For the processor.
        folder: Where measurements are kept.
        measure: Measures with so many threads; takes seconds.
        clock: Seconds since 1970.

    Returns:
        None where it cannot be measured.
    """
    file = folder / "throughput" / f"{_name(build, processor, devices, n_threads)}.json"
    known = _load(file)
    if known is not None and known.holds(clock()):
        return known.found
    found = _settled(known.found if known is not None else None, measure(n_threads))
    if found is None:
        return None
    _save(file, Remembered(found, clock()))
    return found


def _settled(old: Throughput | None, new: Throughput | None) -> Throughput | None:
    """Return what to believe now that it was measured again."""
    if old is None or new is None:
        return new or old
    ratio = new.bytes_per_s / old.bytes_per_s
    keeps = ratio < _NOISE and (not new.alone or ratio > 1 / _NOISE)
    # A value that is confirmed in peace is as good as one that was measured in it.
    return Throughput(old.bytes_per_s if keeps else new.bytes_per_s, new.alone)


def _name(build: str, processor: str, devices: Sequence[Device], n_threads: int) -> str:
    parts = [build, processor, str(n_threads)]
    parts += [f"{device.backend} {device.name} {device.description}" for device in devices]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def _load(file: Path) -> Remembered | None:
    return json_file.read(file, FORMAT, _remembered)


def _remembered(raw: Any) -> Remembered:
    bytes_per_s, at = float(raw["bytes_per_s"]), float(raw["at"])
    if not math.isfinite(bytes_per_s) or bytes_per_s <= 0 or not math.isfinite(at):
        raise ValueError(f"{bytes_per_s} is no measurement")
    return Remembered(Throughput(bytes_per_s, raw["alone"] is True), at)


def _save(file: Path, remembered: Remembered) -> None:
    found = remembered.found
    raw = {"format": FORMAT, "bytes_per_s": found.bytes_per_s, "alone": found.alone, "at": remembered.at}
    try:
        json_file.write(file, raw)
    except OSError as error:
        log.warning("the speed of this machine cannot be kept: %s", error)
