"""Earlier measurements of pairs on this machine, without loading a model.

The latest benchmark or comparison of each machine and pair is a small JSON file; a damaged file is discarded.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from app.compare import AUTOMATIC, PLAIN
from app.compare.measure import WHOLE, Spread
from app.core import atomic
from app.core.errors import AppError
from app.core.paths import benchmarks_dir
from app.engine.auto.pair_statistics import PairStatistics
from app.engine.drafting_report import Speedup
from app.engine.sources import Source
from app.hardware.machine import processor_name
from app.hardware.measured import Measured
from app.hardware.recommend import Capacity
from app.llama import stored_measurements
from app.llama.fitting.fit_pair import fitting_of
from app.llama.fitting.machine_room import machine_capacity, memory_rooms
from app.llama.params import PairParams
from app.llama.stored_measurements import memory_file
from app.models.draft_kinds import kind_of_file
from app.worker.known_pairs import KnownPair, registry
from app.worker.loading import asked_here, placed_here
from app.worker.pair_loader import pair_loader

_FILE_FORMAT = 1

Speeds = Mapping[str, Mapping[str, Spread]]
"""Tokens per second by kind of text and side; the kind of a single prompt is empty."""
_MIN_TOKENS_FOR_SPEEDUP = 128
"""Judged tokens after which the prior of `PairStatistics.gain` has little weight."""
_MIN_TOKENS_FOR_ACCEPTANCE = 64
"""Drafted tokens below which acceptance is mostly chance."""
_MOST_SAVED = 0.99
log = logging.getLogger("tandem.memory")


def save(folder: Path, facts: Mapping[str, str], when: str, speeds: Speeds) -> bool:
    """Replace the stored result of a pair, measured at `when` (UTC, ISO 8601); return False if the disk refuses.

    `facts` has machine, target and draft by name, and any other facts to store.
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

    Keys are the file names of target and draft model.
    """
    latest: dict[tuple[str, str], tuple[str, float]] = {}
    for file in folder.glob("*.json"):
        for models, when, ratio in atomic.read_json(file, _FILE_FORMAT, lambda raw: _read(raw, processor)) or ():
            if latest.get(models, ("", 0.0))[0] < when:
                latest[models] = when, ratio
    return {models: ratio for models, (_, ratio) in latest.items()}


def _read(raw: Any, processor: str) -> list[tuple[tuple[str, str], str, float]]:
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


def measured_capacity(n_ctx: int, released: Mapping[str, int] | None = None) -> tuple[str, Capacity]:
    """Describe this machine in one line; return its memory for models with the speeds of pairs measured here.

    `released` are bytes by device that unloading a pair would free.
    """
    machine, capacity = machine_capacity(released)
    return machine, replace(capacity, n_ctx=n_ctx, measured=seen_here())


def seen_here() -> dict[str, Measured]:
    """Return earlier measurements of every pair by name, for its current placement."""
    try:
        pairs = {name: files for name, files in registry().read().pairs.items() if files.is_here}
        rooms = memory_rooms() if pairs else ()
    except AppError as error:
        log.warning("the measurements of pairs cannot be read: %s", error)
        return {}

    def plan(params: PairParams) -> PairParams:
        return fitting_of(params, rooms, certain=math.inf).params if len(rooms) > 1 else params

    found: dict[str, Measured] = {}
    benchmarked = benchmarked_speedups()
    for name, files in pairs.items():
        try:
            known = KnownPair(files.pair, files)
            loader = pair_loader(known.live_settings().resolved(), known)
            measured = measured_of(placed_here(asked_here(loader, lambda: rooms), plan), benchmarked)
        except (AppError, OSError) as error:
            log.warning("the measurements of %s cannot be read: %s", name, error)
            continue
        if measured is not None:
            found[name] = measured
    return found


def benchmarked_speedups() -> Mapping[tuple[str, str], float]:
    """Return the speedups of benchmarks and comparisons on this machine; see `app.compare.measured_pairs.speedups`."""
    return speedups(benchmarks_dir(), processor_name())


def measured_of(params: PairParams, benchmarked: Mapping[tuple[str, str], float]) -> Measured | None:
    """Return the measurements of a pair in this placement, if any."""
    memory = stored_measurements.load_statistics(memory_file(params))
    if memory is None:
        return None
    draft = params.draft
    models = params.target.name, draft.name if draft is not None else ""
    drafter: Source | None = Source.MTP if params.model.load_mtp else None
    return of_memory(memory, kind_of_file(draft) if draft is not None else drafter, benchmarked.get(models))


def of_memory(
    memory: PairStatistics, drafter: Source | None = Source.MODEL, benchmarked: float | None = None
) -> Measured:
    """Return the statistics of a pair as speeds, with the speedup of its latest benchmark if there is one."""
    counts = [bin_ for place in memory.model.counts for bin_ in place]
    judged = sum(seen for _, seen in counts)
    speedup = Speedup(benchmarked, measured=True) if benchmarked is not None else None
    if speedup is None and drafter is not None and memory.gain is not None and judged >= _MIN_TOKENS_FOR_SPEEDUP:
        speedup = Speedup(1 / (1 - min(memory.gain, _MOST_SAVED)))
    return Measured(
        costs=memory.costs,
        drafter=drafter,
        acceptance=sum(accepted for accepted, _ in counts) / judged if judged >= _MIN_TOKENS_FOR_ACCEPTANCE else None,
        speedup=speedup,
        has_lost=not memory.trial.on,
        quiet_ns=memory.least_ns,
    )
