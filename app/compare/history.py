"""Results kept on this machine: was it faster before, and what has changed since?

One small JSON file per machine, pair and suite, so that a new build, driver, quantization or setting is compared with
the old one. It is only a memory: a file that is missing or damaged begins again, and of very many the oldest go.

What counts as before are the latest results with the same details: their median, so that one lucky run accuses no one,
and with their spread as noise, because two runs of a program differ by more than the rounds of one.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from app.compare.measure import WHOLE, Spread, noise
from app.compare.sides import AUTOMATIC, PLAIN
from app.core import json_file

FORMAT = 1
_MOST = 200
_MOST_FILES = 500
"""Every prompt that was ever compared has a file; those that nothing was added to for longest go."""
_LATEST = 5
"""Results that stand for what was before."""
log = logging.getLogger("tandem.history")
log.addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True)
class Facts:
    """Machine, models and settings of a result.

    Attributes:
        machine: Processor, and graphics processors if there are any.
        target: The target's name.
        draft: The draft's name; "" without.
        suite: What tells this set of prompts and this length from others.
        details: What may change between two runs and explain a difference, by a name for people: driver, llama.cpp,
            quantizations, files, threads, sampling.
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
        speeds: Tokens per second by kind of text, "" where there is but one prompt, and contender.
    """

    when: str
    details: Mapping[str, str]
    speeds: Mapping[str, Mapping[str, Spread]]


@dataclass(frozen=True, slots=True)
class Slower:
    """Something that was faster the last time.

    Attributes:
        kind: Kind of text.
        contender: Who.
        before: Its tokens per second then.
        now: And now.
    """

    kind: str
    contender: str
    before: float
    now: float


class History:
    """The results of one machine, pair and suite.

    Args:
        folder: Where the files lie.
        facts: What is measured on what.
    """

    def __init__(self, folder: Path, facts: Facts) -> None:
        self._file = folder / f"{facts.key}.json"
        self._facts = facts

    def results(self) -> list[Result]:
        """Return what was kept, oldest first; nothing if the file is missing or damaged."""
        return json_file.read(self._file, FORMAT, lambda raw: [_read(entry) for entry in raw["results"]]) or []

    def add(self, result: Result) -> bool:
        """Keep a result in one step; False if the disk refuses."""
        results = [*self.results(), result][-_MOST:]
        facts = self._facts
        raw = {
            "format": FORMAT,
            "machine": facts.machine,
            "target": facts.target,
            "draft": facts.draft,
            "suite": facts.suite,
            "results": [_write(entry) for entry in results],
        }
        try:
            json_file.write(self._file, raw)
        except OSError as error:
            log.warning("the result cannot be kept: %s", error)
            return False
        _tidy(self._file)
        return True


def speedups(folder: Path, processor: str) -> dict[tuple[str, str], float]:
    """Return the speedup of automatic drafting in the latest result of each pair.

    Args:
        folder: Where the files are.
        processor: Of this machine; results of others do not count.

    Returns:
        Ratios by the file names of target and draft model.
    """
    latest: dict[tuple[str, str], tuple[str, float]] = {}
    for file in folder.glob("*.json"):
        for result in json_file.read(file, FORMAT, lambda raw: _of_processor(raw, processor)) or []:
            models = _file_name(result.details.get("target", "")), _file_name(result.details.get("draft", ""))
            ratio = _speedup(result)
            if ratio is not None and (models not in latest or latest[models][0] < result.when):
                latest[models] = result.when, ratio
    return {models: ratio for models, (_, ratio) in latest.items()}


def _of_processor(raw: Any, processor: str) -> list[Result]:
    is_here = str(raw["machine"]) == processor or str(raw["machine"]).startswith(f"{processor}, ")
    return [_read(entry) for entry in raw["results"]] if is_here else []


def _file_name(detail: str) -> str:
    """Return the file name from a model detail, which ends with the quantization."""
    return detail.rpartition(", ")[0]


def _speedup(result: Result) -> float | None:
    speeds = result.speeds.get(WHOLE, next(iter(result.speeds.values()), {}))
    plain, automatic = speeds.get(PLAIN), speeds.get(AUTOMATIC)
    return automatic.median / plain.median if plain is not None and automatic is not None and plain.median else None


def _tidy(newest: Path) -> None:
    """Bound the number of files beside this one; another process may be doing the same."""
    try:
        others = [(file.stat().st_mtime_ns, file) for file in newest.parent.glob("*.json") if file != newest]
        for _, file in sorted(others)[: max(0, len(others) + 1 - _MOST_FILES)]:
            file.unlink(missing_ok=True)
    except OSError as error:
        log.warning("old results stay: %s", error)


def baseline(results: Sequence[Result]) -> Result | None:
    """What was before, as one result: of the latest ones with the same details the median, and how far they spread."""
    if not results:
        return None
    last = results[-1]
    alike = [result for result in results[-_LATEST:] if result.details == last.details]
    speeds: dict[str, dict[str, Spread]] = {}
    for kind, contenders in last.speeds.items():
        speeds[kind] = {name: _over([one.speeds.get(kind, {}).get(name) for one in alike]) for name in contenders}
    return replace(last, speeds=speeds)


def _over(speeds: Sequence[Spread | None]) -> Spread:
    """Several measurements of one speed; one of them as it is."""
    known = [speed for speed in speeds if speed is not None]
    if len(known) == 1:
        return known[0]
    medians = [speed.median for speed in known]
    middle = statistics.median(medians)
    # Within a run it may spread further than from run to run.
    half = max((speed.width for speed in known), default=0.0) / 2
    low, high = min(*medians, middle - half), max(*medians, middle + half)
    return Spread(middle, max(0.0, low), high, sum(speed.n for speed in known))


def slower(before: Result, now: Result) -> list[Slower]:
    """Return what is slower than before by more than the noise: that of the less steady of both."""
    found = []
    for kind, contenders in now.speeds.items():
        for name, speed in contenders.items():
            old = before.speeds.get(kind, {}).get(name)
            if old is None or old.median <= 0:
                continue
            if speed.median < old.median * (1 - max(noise(old), noise(speed))):
                found.append(Slower(kind, name, old.median, speed.median))
    return found


def changes(before: Result, now: Result) -> list[str]:
    """Return what is different between two measurements, each as one phrase."""
    names = list(dict.fromkeys((*before.details, *now.details)))
    out = []
    for name in names:
        old, new = before.details.get(name, ""), now.details.get(name, "")
        if old != new:
            out.append(f"{name}: {old or 'none'} -> {new or 'none'}")
    return out


def remark(earlier: Sequence[Result], now: Result) -> list[str]:
    """Return what there is to say about earlier results, oldest first, as lines; nothing if this one is as fast."""
    before = baseline(earlier)
    found = slower(before, now) if before is not None else []
    if before is None or not found:
        return []
    worst = sorted(found, key=lambda s: s.now / s.before)[:3]
    lines = [f"Slower than before ({before.when[:16].replace('T', ' ')} UTC), by more than the noise:"]
    for s in worst:
        kind = f"{s.kind}, " if s.kind else ""
        lines.append(f"  {kind}{s.contender}: {s.now:.1f} tok/s, was {s.before:.1f} ({s.now / s.before:.2f}×)")
    if len(found) > len(worst):
        lines.append(f"  and {len(found) - len(worst)} more")
    changed = changes(before, now)
    lines.append(f"What changed: {'; '.join(changed)}." if changed else _NOTHING)
    return lines


_NOTHING = "Nothing that is recorded has changed: heat, power settings or other programs may be why."


def _write(result: Result) -> dict[str, Any]:
    speeds = {kind: {name: s.as_json() for name, s in by.items()} for kind, by in result.speeds.items()}
    return {"when": result.when, "details": dict(result.details), "speeds": speeds}


def _read(entry: Any) -> Result:
    details = {str(name): str(value) for name, value in entry["details"].items()}
    speeds = {str(kind): {str(name): _spread(raw) for name, raw in by.items()} for kind, by in entry["speeds"].items()}
    return Result(str(entry["when"]), details, speeds)


def _spread(raw: Any) -> Spread:
    values: Sequence[float] = [float(raw[name]) for name in ("median", "low", "high")]
    if not all(math.isfinite(value) and value >= 0 for value in values):
        raise ValueError("no speed")
    return Spread(values[0], values[1], values[2], int(raw["n"]))
