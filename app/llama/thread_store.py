"""The number of threads that was measured as the fastest, on disk between runs: one small file a model and build."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from app.core import json_file
from app.engine.auto.threads import Threads, ThreadTimes

FORMAT = 1
_MOST = 4096
log = logging.getLogger("tandem.memory")


def save(path: Path, times: ThreadTimes) -> OSError | None:
    """Write what was measured in one step; a disk that refuses is told, and leaves the usual number in force."""
    raw = {
        "format": FORMAT,
        "threads": {"generation": times.best.generation, "prompt": times.best.prompt},
        "generation_ns": _texts(times.generation),
        "prompt_ns": _texts(times.prompt),
    }
    try:
        json_file.write(path, raw)
    except OSError as error:
        log.warning("the number of threads cannot be kept: %s", error)
        return error
    return None


def load(path: Path) -> Threads | None:
    """The numbers to use; None if nothing was measured, or nothing that can be read."""
    return json_file.read(path, FORMAT, _threads)


def _threads(raw: Any) -> Threads | None:
    chosen = raw["threads"]
    return Threads(_count(chosen["generation"]), _count(chosen["prompt"])) if chosen else None


def _texts(times: Mapping[int, float]) -> dict[str, float]:
    return {str(n): ns for n, ns in sorted(times.items())}


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= _MOST:
        raise ValueError(f"{value!r} is no number of threads")
    return value
