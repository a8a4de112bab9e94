"""Earlier measurements of pairs on this machine, without loading a model."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping

from app.cli.known_pairs import registry
from app.cli.options import open_settings, options_of
from app.cli.placing import asked_here, placed_here
from app.compare.history import speedups
from app.core.errors import AppError
from app.core.paths import benchmarks_dir
from app.engine.auto.pair_statistics import PairStatistics
from app.engine.drafting_report import Speedup
from app.hardware.device_room import DeviceRoom
from app.hardware.machine import processor_name
from app.hardware.measured import Measured
from app.llama import stored_measurements
from app.llama.fitting.device_rooms import memory_rooms
from app.llama.fitting.weighing import weighed
from app.llama.pair_params import PairParams
from app.llama.stored_measurements import memory_file
from app.models.expected_speedup import Seen
from app.models.pair_names import quantization
from app.models.registry import SetUp
from app.models.source import LocalModel
from app.settings.model_file import Recommended

_ENOUGH = 128
"""Judged tokens after which `PairStatistics.gain` has nearly forgotten what it began with."""
_TYPICAL_DRAFT = 0.5
"""Highest draft cost, as a share of the target's, of a typical pair."""
_MOST_SAVED = 0.99
log = logging.getLogger("tandem.memory")


def seen(pairs: Mapping[str, SetUp]) -> dict[str, Seen]:
    """Return earlier measurements of pairs by name, for the placement they would get now."""
    found: dict[str, Seen] = {}
    try:
        rooms = memory_rooms()
    except AppError as error:
        log.warning("what was measured of pairs cannot be read: %s", error)
        return found
    benchmarked = benchmarked_speedups()
    for name, files in pairs.items():
        try:
            measured = _measured(files, rooms, benchmarked)
        except (AppError, OSError) as error:
            log.warning("what was measured of %s cannot be read: %s", name, error)
            continue
        if measured is not None:
            found[name] = seen_of(measured, quantization(LocalModel(files.target.path)))
    return found


def benchmarked_speedups() -> Mapping[tuple[str, str], float]:
    """Return the speedups of benchmarks and comparisons on this machine; see `app.compare.history.speedups`."""
    return speedups(benchmarks_dir(), processor_name())


def measured_of(params: PairParams, benchmarked: Mapping[tuple[str, str], float]) -> Measured | None:
    """Return the measurements of earlier answers of this pair in this placement; None without any.

    Args:
        params: How it is loaded.
        benchmarked: See `benchmarked_speedups`.
    """
    file = memory_file(params)
    memory = stored_measurements.load_statistics(file) if file is not None else None
    if memory is None:
        return None
    draft = params.draft
    models = params.target.name, draft.name if draft is not None else ""
    return of_memory(memory, with_draft=draft is not None, benchmarked=benchmarked.get(models))


def _measured(
    files: SetUp, rooms: tuple[DeviceRoom, ...], benchmarked: Mapping[tuple[str, str], float]
) -> Measured | None:
    model = Recommended()  # what it recommends is about sampling, which costs nothing here
    options = options_of(open_settings({}, files.pair, model).resolved(), files.pair, files, model)
    sources = files.pair.target, files.pair.draft

    def plan(params: PairParams) -> PairParams:
        return weighed(params, sources, rooms, certain=math.inf).params if len(rooms) > 1 else params

    return measured_of(placed_here(options, asked_here(options, lambda: rooms), plan), benchmarked)


def seen_of(measured: Measured, quant: str) -> Seen:
    """Return the part of a measurement that a list of pairs shows.

    Args:
        measured: Of a pair.
        quant: Of the target's weights.
    """
    return Seen(
        quant=quant,
        tokens_per_second=measured.tokens_per_second,
        off=measured.off,
        speedup=measured.speedup,
        is_typical=measured.with_draft and measured.draft_ns <= _TYPICAL_DRAFT * measured.plain_ns,
    )


def of_memory(memory: PairStatistics, *, with_draft: bool, benchmarked: float | None = None) -> Measured:
    """Return a memory as sums and speeds.

    Args:
        memory: Of a pair.
        with_draft: Whether it has a draft model.
        benchmarked: The speedup that the latest benchmark showed; None without one.
    """
    counts = [bin_ for place in memory.model.counts for bin_ in place]
    judged = sum(seen for _, seen in counts)
    speedup = Speedup(benchmarked, measured=True) if benchmarked is not None else None
    if speedup is None and with_draft and memory.gain is not None and judged >= _ENOUGH:
        speedup = Speedup(1 / (1 - min(memory.gain, _MOST_SAVED)))
    return Measured(
        costs=memory.costs,
        with_draft=with_draft,
        least_ns=memory.least_ns,
        accepted=sum(accepted for accepted, _ in counts),
        judged=judged,
        speedup=speedup,
        has_lost=not memory.trial.on,
    )


def seen_here() -> dict[str, Seen]:
    """Return earlier measurements of every pair by name, for the placement it would get now."""
    try:
        known = registry().read().pairs
    except AppError as error:
        log.warning("what was measured of pairs cannot be read: %s", error)
        return {}
    pairs = {name: files for name, files in known.items() if files.is_here}
    if not pairs:
        return {}
    return seen(pairs)
