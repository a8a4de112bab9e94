"""Results on this machine: one small JSON file per machine, pair and suite, to find what became slower.

A damaged file is discarded.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.compare.measure import WHOLE, Spread
from app.compare.sides import AUTOMATIC, PLAIN
from app.core import json_file

_FORMAT = 1
_MOST = 200
"""Results in a file."""
_LATEST = 5
"""Earlier results that a new one is compared with."""
_SLOWER = 0.9
"""Share of the earlier median speed below which a result is slower."""
_SHOWN = 3
log = logging.getLogger("tandem.history")
log.addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True)
class Facts:
    """Machine, models and settings of a result.

    Attributes:
        machine: CPU, and GPUs if any.
        suite: Digest of the prompts and lengths.
        details: What may change between two runs, by name: driver, llama.cpp, quantizations, files, threads, sampling.
    """

    machine: str
    target: str
    draft: str
    suite: str
    details: Mapping[str, str]

    @property
    def key(self) -> str:
        """The name of the file."""
        parts = json.dumps([self.machine, self.target, self.draft, self.suite])
        return hashlib.sha256(parts.encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Result:
    """One measurement.

    Attributes:
        when: UTC, ISO 8601.
        details: As in `Facts`.
        speeds: Tokens per second by kind of text ("" for a single prompt) and side.
    """

    when: str
    details: Mapping[str, str]
    speeds: Mapping[str, Mapping[str, Spread]]


class History:
    """The results of one machine, pair and suite, in a file of a folder."""

    def __init__(self, folder: Path, facts: Facts) -> None:
        self._file = folder / f"{facts.key}.json"
        self._facts = facts

    def results(self) -> list[Result]:
        """Return the stored results, oldest first."""
        return json_file.read(self._file, _FORMAT, lambda raw: [_read(entry) for entry in raw["results"]]) or []

    def add(self, result: Result) -> bool:
        """Store a result; return False if the disk refuses."""
        facts = self._facts
        raw = {
            "format": _FORMAT,
            "machine": facts.machine,
            "target": facts.target,
            "draft": facts.draft,
            "suite": facts.suite,
            "results": [_write(entry) for entry in [*self.results(), result][-_MOST:]],
        }
        try:
            json_file.write(self._file, raw)
        except OSError as error:
            log.warning("the result cannot be saved: %s", error)
            return False
        return True


def speedups(folder: Path, processor: str) -> dict[tuple[str, str], float]:
    """Return the speedup of automatic drafting in the latest result of each pair.

    Args:
        folder: Folder of the files.
        processor: CPU of this machine; results of others do not count.

    Returns:
        Ratios by the file names of target and draft model.
    """
    latest: dict[tuple[str, str], tuple[str, float]] = {}
    for file in folder.glob("*.json"):
        for result in json_file.read(file, _FORMAT, lambda raw: _of_processor(raw, processor)) or []:
            # A detail ends with the quantization.
            target, draft = (result.details.get(name, "").rpartition(", ")[0] for name in ("target", "draft"))
            ratio = _speedup(result)
            if ratio is not None and latest.get((target, draft), ("", 0.0))[0] < result.when:
                latest[target, draft] = result.when, ratio
    return {models: ratio for models, (_, ratio) in latest.items()}


def _of_processor(raw: Any, processor: str) -> list[Result]:
    is_here = str(raw["machine"]) == processor or str(raw["machine"]).startswith(f"{processor}, ")
    return [_read(entry) for entry in raw["results"]] if is_here else []


def _speedup(result: Result) -> float | None:
    speeds = result.speeds.get(WHOLE, next(iter(result.speeds.values()), {}))
    plain, automatic = speeds.get(PLAIN), speeds.get(AUTOMATIC)
    return automatic.median / plain.median if plain is not None and automatic is not None and plain.median else None


def regressions(earlier: Sequence[Result], now: Result) -> list[str]:
    """Return lines on what is slower than before, and what has changed since.

    The latest results with the same details count as before: a speed is slower if it is 10% below their median and
    below all of them.

    Args:
        earlier: Oldest first.
        now: The new result.
    """
    if not earlier:
        return []
    last = earlier[-1]
    before = [result for result in earlier[-_LATEST:] if result.details == last.details]
    found: list[tuple[float, str]] = []
    for kind, sides in now.speeds.items():
        for name, speed in sides.items():
            known = [result.speeds[kind][name] for result in before if name in result.speeds.get(kind, {})]
            median = statistics.median(old.median for old in known) if known else 0.0
            if speed.median < _SLOWER * median and speed.high < min(old.low for old in known):
                side = f"{kind}, {name}" if kind else name
                ratio = speed.median / median
                found.append((ratio, f"  {side}: {speed.median:.1f} tok/s, was {median:.1f} ({ratio:.2f}×)"))
    if not found:
        return []
    lines = [f"Slower than before ({last.when[:16].replace('T', ' ')} UTC), by more than the noise:"]
    lines += [line for _, line in sorted(found)[:_SHOWN]]
    if len(found) > _SHOWN:
        lines.append(f"  and {len(found) - _SHOWN} more")
    changed = _changes(last.details, now.details)
    nothing = "No recorded detail has changed; heat, power settings or other programs may be the cause."
    return [*lines, f"What changed: {changed}." if changed else nothing]


def _changes(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    both = ((name, before.get(name, "none"), now.get(name, "none")) for name in dict.fromkeys((*before, *now)))
    return "; ".join(f"{name}: {old} -> {new}" for name, old, new in both if old != new)


def _write(result: Result) -> dict[str, Any]:
    speeds = {kind: {name: s.as_json() for name, s in by.items()} for kind, by in result.speeds.items()}
    return {"when": result.when, "details": dict(result.details), "speeds": speeds}


def _read(entry: Any) -> Result:
    details = {str(name): str(value) for name, value in entry["details"].items()}
    speeds = {str(kind): {str(name): _spread(raw) for name, raw in by.items()} for kind, by in entry["speeds"].items()}
    return Result(str(entry["when"]), details, speeds)


def _spread(raw: Any) -> Spread:
    median, low, high = (float(raw[name]) for name in ("median", "low", "high"))
    if not all(math.isfinite(value) and value >= 0 for value in (median, low, high)):
        raise ValueError("no speed")
    return Spread(median, low, high, int(raw["n"]))
