"""The latest result of each machine and pair as a small JSON file: the measured speedup of a pair.

A damaged file is discarded.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from app.compare import AUTOMATIC, PLAIN
from app.compare.measure import WHOLE, Spread
from app.core import atomic

_FILE_FORMAT = 1

Speeds = Mapping[str, Mapping[str, Spread]]
"""Tokens per second by kind of text and side; the kind of a single prompt is empty."""


def save(folder: Path, facts: Mapping[str, str], when: str, speeds: Speeds) -> bool:
    """Replace the stored result of a pair, measured at `when` (UTC, ISO 8601); return False if the disk refuses.

    `facts` has machine, target and draft by name, and whatever else is to be kept with them.
    """
    details = {name: value for name, value in facts.items() if name != "machine"}
    by_kind = {kind: {name: speed.as_json() for name, speed in by.items()} for kind, by in speeds.items()}
    result = {"when": when, "details": details, "speeds": by_kind}
    pair = json.dumps([facts.get(name, "") for name in ("machine", "target", "draft")])
    file = folder / f"{hashlib.sha256(pair.encode()).hexdigest()[:32]}.json"
    try:
        atomic.write_json(file, {"format": _FILE_FORMAT, "machine": facts["machine"], "results": [result]})
    except OSError:
        return False
    return True


def speedups(folder: Path, processor: str) -> dict[tuple[str, str], float]:
    """Return the speedup of automatic drafting in the latest result of each pair on this processor.

    Ratios are by the file names of target and draft model.
    """
    latest: dict[tuple[str, str], tuple[str, float]] = {}
    for file in folder.glob("*.json"):
        for models, when, ratio in atomic.read_json(file, _FILE_FORMAT, lambda raw: _read(raw, processor)) or ():
            if latest.get(models, ("", 0.0))[0] < when:
                latest[models] = when, ratio
    return {models: ratio for models, (_, ratio) in latest.items()}


def _read(raw: Any, processor: str) -> list[tuple[tuple[str, str], str, float]]:
    """Return the file names, time and speedup of the results of a file."""
    machine = str(raw["machine"])
    if machine != processor and not machine.startswith(f"{processor}, "):
        return []
    found = []
    for result in raw["results"]:
        kinds, details = result["speeds"], result["details"]
        speeds: Any = kinds.get(WHOLE) or next(iter(kinds.values()), {})
        if PLAIN in speeds and AUTOMATIC in speeds:
            # A detail ends with the quantization.
            target, draft = (str(details.get(name, "")).rpartition(", ")[0] for name in ("target", "draft"))
            ratio = float(speeds[AUTOMATIC]["median"]) / float(speeds[PLAIN]["median"])
            found.append(((target, draft), str(result["when"]), ratio))
    return found
