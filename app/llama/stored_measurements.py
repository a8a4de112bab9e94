"""Store measurements of a pair and of threads, by files, placement, machine, build and threads.

A home may be on more than one machine, and a machine may get another card: what was measured on one says nothing of the
other, and comes back with it.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from app.core import json_file
from app.engine.auto.acceptance import SUPPORT_PRIOR, AcceptanceTable, model_table, ngram_table
from app.engine.auto.attribution import CONTEXT_WIDTHS
from app.engine.auto.curve import MAX_ROWS, CostModel, CostProfile
from app.engine.auto.guard import Ledger, Trial
from app.engine.auto.pair_statistics import PairStatistics
from app.engine.auto.threads import Threads, ThreadTimes
from app.hardware.processors import processor_kind
from app.llama.installed import build_kind, computes_on_processors_only
from app.llama.pair_params import PairParams
from app.llama.params import CPU_LABEL, ModelParams
from app.settings.placement import ALL_LAYERS

_SAMPLE_BYTES = 1 << 20
_THREADS_FOLDER = "threads"


Fingerprints = Mapping[Path, str]
"""Hashes of the readable files of a pair. A loaded pair needs its files no more: they may be gone, or
be others, when something is to be kept of it."""


def fingerprints(params: PairParams) -> Fingerprints:
    """The files as they are now."""
    found = {}
    for path in filter(None, (params.target, params.draft)):
        with suppress(OSError):
            found[path] = fingerprint(path)
    return found


def memory_file(params: PairParams, files: Fingerprints | None = None) -> Path | None:
    """Return the file of learned drafting statistics; None for nowhere, or if a model file cannot be read.

    Args:
        params: How the pair is loaded; without a draft where that is not loaded.
        files: As they were when it was loaded; None looks at them now.
    """
    if params.memory_dir is None:
        return None
    files = fingerprints(params) if files is None else files
    if not all(path in files for path in filter(None, (params.target, params.draft))):
        return None
    return params.memory_dir / f"{pair_identity(params, files)}.json"


def thread_file(params: PairParams, candidates: Sequence[int], files: Fingerprints | None = None) -> Path | None:
    """Return the file of measured threads; None if the CPU has no layers, or as for `memory_file`.

    Args:
        params: How the pair is loaded.
        candidates: The numbers that can be chosen from; a container with another quota has others.
        files: As for `memory_file`.
    """
    path = processor_model(params)
    if params.memory_dir is None or path is None:
        return None
    files = fingerprints(params) if files is None else files
    if path not in files:
        return None
    model = params.model if path == params.target else params.draft_model
    return params.memory_dir / _THREADS_FOLDER / f"{model_identity(files[path], model, candidates)}.json"


def processor_model(params: PairParams) -> Path | None:
    """The file of the model whose layers the processor computes, the target's if it computes both; else None."""
    if _computed_here(params.model):
        return params.target
    return params.draft if params.draft is not None and _computed_here(params.draft_model) else None


def _computed_here(model: ModelParams) -> bool:
    # How many layers a model has is not known here; a number that was given means that some are left over.
    return _label(model) == CPU_LABEL or model.n_gpu_layers != ALL_LAYERS


def pair_identity(params: PairParams, files: Fingerprints) -> str:
    """Hash everything that costs and acceptance depend on.

    Of a draft that is not loaded nothing counts.
    """
    parts = [
        files[params.target],
        *_placement(params.model, params.kv_type),
        build_kind(),
        processor_kind(),
        str(params.n_threads),
        params.flash_attention,
        *params.rpc,
    ]
    if params.draft is not None:
        parts += [files[params.draft], *_placement(params.draft_model, params.draft_kv_type)]
    return _name(parts)


def model_identity(file: str, model: ModelParams, n_cpus: Iterable[int]) -> str:
    """Hash everything that the best number of threads depends on.

    Args:
        file: Its fingerprint.
        model: Where its layers are.
        n_cpus: The numbers to choose from.
    """
    return _name([file, *_placement(model, ""), build_kind(), processor_kind(), *map(str, n_cpus)])


def fingerprint(path: Path) -> str:
    """Hash size, beginning and end of a model file."""
    with path.open("rb") as file:
        size = path.stat().st_size
        digest = hashlib.sha256(f"{size}\n".encode() + file.read(_SAMPLE_BYTES))
        file.seek(max(0, size - _SAMPLE_BYTES))
        digest.update(file.read(_SAMPLE_BYTES))
    return digest.hexdigest()


def _label(model: ModelParams) -> str:
    """`app.llama.placement.label`; llama.cpp is loaded only where its list of devices could matter."""
    if model.on_cpu or (not model.devices and computes_on_processors_only()):
        return CPU_LABEL
    from app.llama.placement import label

    return label(model)


def _placement(model: ModelParams, kv_type: str) -> tuple[str, ...]:
    shares = ",".join(f"{share:g}" for share in model.tensor_split)
    return _label(model), *_kinds(model), str(model.n_gpu_layers), shares, kv_type


def _kinds(model: ModelParams) -> tuple[str, ...]:
    """Return the descriptions of the devices that `_label` names; () for the CPU."""
    if _label(model) == CPU_LABEL:
        return ()
    from app.llama.placement import kinds_of

    return kinds_of(model)


def _name(parts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


STATISTICS_FORMAT = 1
_LONGEST_NS = 1e13
"""Nearly three hours; no batch takes longer."""
_MOST_LOOKS = 20
log = logging.getLogger("tandem.memory")
log.addHandler(logging.NullHandler())


def save_statistics(path: Path, memory: PairStatistics) -> OSError | None:
    """Write statistics atomically; returns the error of the disk, if any."""
    # Today's clock and load_statistics are folded in, so that the next run starts from what was seen last.
    profile = memory.costs.snapshot()
    raw = {
        "format": STATISTICS_FORMAT,
        "rows": profile.rows,
        "draft_ns": profile.draft_ns,
        "cells": profile.cells,
        "draft_prompt_ns": profile.draft_prompt_ns,
        "widest": profile.widest,
        "gain": None if memory.gain is None else max(0.0, memory.gain),
        "balance": max(0.0, memory.ledger.balance),
        "model": memory.model.counts,
        "lookup": memory.lookup.counts,
        "trial": {"on": memory.trial.on},
        "idle_answers": memory.idle_answers,
        "n_looks": memory.n_looks,
        "least_ns": memory.least_ns,
        "measured_ns": memory.measured_ns,
    }
    try:
        json_file.write(path, raw)
    except OSError as error:
        log.warning("what was learned cannot be kept: %s", error)
        return error
    return None


def load_statistics(path: Path) -> PairStatistics | None:
    """Read a memory; None if there is none that can be used."""
    return json_file.read(path, STATISTICS_FORMAT, _memory)


def _memory(raw: dict[str, Any]) -> PairStatistics:
    rows = {int(width): _positive(ns) for width, ns in raw["rows"].items()}
    if 1 not in rows or not all(1 <= width <= MAX_ROWS for width in rows):
        raise ValueError("its cost curve is not one")
    profile = CostProfile(
        rows,
        draft_ns=_number(raw["draft_ns"]),
        cells=_cells(raw.get("cells", {}), rows[1]),
        draft_prompt_ns=_number(raw["draft_prompt_ns"]),
        widest=max(1, min(MAX_ROWS, int(_number(raw.get("widest", MAX_ROWS))))),
    )
    return PairStatistics(
        costs=CostModel(profile),
        model=_table(model_table, raw["model"]),
        lookup=_lookup(raw["lookup"]),
        trial=Trial(on=bool(raw["trial"]["on"])),
        gain=None if raw["gain"] is None else min(1.0, _number(raw["gain"])),
        ledger=Ledger(balance=min(Ledger.CAP, _number(raw.get("balance", Ledger.START)))),
        idle_answers=int(_number(raw.get("idle_answers", 0))),
        n_looks=min(_MOST_LOOKS, int(_number(raw.get("n_looks", 0)))),
        least_ns=_number(raw.get("least_ns", 0)),
        measured_ns=_number(raw.get("measured_ns", 0)),
    )


def _cells(raw: dict[str, Any], plain_ns: float) -> dict[int, float]:
    cells = {int(width): _number(ns) for width, ns in raw.items()}
    if cells and not set(CONTEXT_WIDTHS[:-1]) <= set(cells) <= set(CONTEXT_WIDTHS):
        raise ValueError("its context costs have other widths")
    if any(ns > width * plain_ns for width, ns in cells.items()):
        raise ValueError("no cached token costs as much as a row")
    return cells


def _lookup(counts: Any) -> AcceptanceTable:
    """Return the n-gram statistics; empty if another version used other classes."""
    return _table(ngram_table, counts) if all(len(p) == len(SUPPORT_PRIOR) for p in counts) else ngram_table()


def _table(make: Callable[[list[list[list[float]]]], AcceptanceTable], counts: Any) -> AcceptanceTable:
    table = make([[[_number(n) for n in pair] for pair in place] for place in counts])
    shape = [len(table.prior)] * 2
    if [len(place) for place in counts] != shape or any(len(pair) != 2 for place in counts for pair in place):
        raise ValueError("its acceptance counts have another shape")
    if any(not 0 <= accepted <= seen for place in table.counts for accepted, seen in place):
        raise ValueError("its acceptance counts are not counts")
    return table


def _number(value: Any) -> float:
    number = float(value)
    if not 0 <= number <= _LONGEST_NS:
        raise ValueError(f"{value} is no measurement")
    return number


def _positive(value: Any) -> float:
    number = _number(value)
    if number < 1.0:
        raise ValueError("a batch cannot cost nothing")
    return number


THREADS_FORMAT = 1
_MAX_THREADS = 4096


def save_threads(path: Path, times: ThreadTimes) -> OSError | None:
    """Write measured threads atomically; returns the error of the disk, if any."""
    raw = {
        "format": THREADS_FORMAT,
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


def load_threads(path: Path) -> Threads | None:
    """The numbers to use; None if nothing was measured, or nothing that can be read."""
    return json_file.read(path, THREADS_FORMAT, _threads)


def _threads(raw: Any) -> Threads | None:
    chosen = raw["threads"]
    return Threads(_count(chosen["generation"]), _count(chosen["prompt"])) if chosen else None


def _texts(times: Mapping[int, float]) -> dict[str, float]:
    return {str(n): ns for n, ns in sorted(times.items())}


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= _MAX_THREADS:
        raise ValueError(f"{value!r} is no number of threads")
    return value
