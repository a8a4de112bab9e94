"""The latest result of each machine, pair and suite as a small JSON file: the measured speedup of a pair.

A damaged file is discarded.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.compare import AUTOMATIC, PLAIN
from app.compare.measure import WHOLE, Spread
from app.core import json_file

_FORMAT = 1
log = logging.getLogger("tandem.history")
log.addHandler(logging.NullHandler())

Speeds = Mapping[str, Mapping[str, Spread]]
"""Tokens per second by kind of text ("" for a single prompt) and side."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Machine, models and settings of a result.

    Attributes:
        machine: CPU, and GPUs if any.
        suite: Digest of the prompts and lengths.
        details: Driver, llama.cpp, files, quantizations, threads, sampling and others, by name.
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


def save(folder: Path, facts: Facts, when: str, speeds: Speeds) -> bool:
    """Replace the stored result; return False if the disk refuses.

    Args:
        folder: Folder of the files.
        facts: What was measured.
        when: UTC, ISO 8601.
        speeds: The result.
    """
    by_kind = {kind: {name: speed.as_json() for name, speed in by.items()} for kind, by in speeds.items()}
    raw = {
        "format": _FORMAT,
        "machine": facts.machine,
        "results": [{"when": when, "details": dict(facts.details), "speeds": by_kind}],
    }
    try:
        json_file.write(folder / f"{facts.key}.json", raw)
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
        for models, when, ratio in json_file.read(file, _FORMAT, lambda raw: _read(raw, processor)) or ():
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
