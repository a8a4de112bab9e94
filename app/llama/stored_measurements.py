"""Store measurements of a pair and of threads, by files, placement, machine, build and threads."""

from __future__ import annotations

import hashlib
import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from app.core import atomic, regular_file
from app.engine.auto.acceptance import AcceptanceTable, model_table, ngram_table
from app.engine.auto.cost_profile import MAX_BATCH, CostProfile
from app.engine.auto.curve import CostModel
from app.engine.auto.guard import Ledger, Trial
from app.engine.auto.pair_statistics import PairStatistics
from app.engine.auto.threads import ThreadTimes
from app.engine.types import Threads
from app.hardware.cpu import processor_kind
from app.llama.installed import build_identity, is_cpu_only_build
from app.llama.params import CPU_LABEL, PairParams
from app.models.memory_estimate import N_SNAPSHOTS
from app.settings.model_params import ModelParams
from app.settings.placement import ALL_LAYERS, DEFAULT_OFFLOAD
from app.settings.table import MAX_THREADS

_SAMPLE_BYTES = 1 << 20
_THREADS_FOLDER = "threads"
_STEPS_OF_EXPERTS = 4
"""Steps per doubling of the layers whose experts are in RAM; the CPU's share of a token grows with them."""


def memory_file(params: PairParams) -> Path | None:
    """Return the file of learned drafting statistics, if they can be stored and the model files are readable."""
    if params.memory_dir is None:
        return None
    try:
        return params.memory_dir / f"{pair_identity(params)}.json"
    except OSError:
        return None


def thread_file(params: PairParams, candidates: Sequence[int]) -> Path | None:
    """Return the file of measured threads, if the CPU has layers; see `memory_file`.

    Args:
        candidates: The thread counts to choose from, which depend on a container's quota.
    """
    path = cpu_model(params)
    if params.memory_dir is None or path is None:
        return None
    model = params.model if path == params.target else params.draft_model
    try:
        parts = [fingerprint(path), *_placement(model, ""), build_identity(), processor_kind()]
    except OSError:
        return None
    return params.memory_dir / _THREADS_FOLDER / f"{_name([*parts, *map(str, candidates)])}.json"


def cpu_model(params: PairParams) -> Path | None:
    """Return the file of the model that the CPU computes, if any; the target's if it computes both."""
    if _computed_here(params.model):
        return params.target
    return params.draft if params.draft is not None and _computed_here(params.draft_model) else None


def _computed_here(model: ModelParams) -> bool:
    # The number of layers is unknown here; an explicit number may leave some to the CPU.
    return bool(model.all_overrides) or not _devices(model) or model.n_gpu_layers != ALL_LAYERS


def pair_identity(params: PairParams) -> str:
    """Hash everything that costs and acceptance depend on.

    Raises:
        OSError: A model file cannot be read.
    """
    parts = [
        fingerprint(params.target),
        *_placement(params.model, params.kv_type),
        build_identity(),
        processor_kind(),
        str(params.threads.generation),
        params.settings["model.flash_attn"],
        *params.addresses,
    ]
    if params.draft is not None:
        parts += [fingerprint(params.draft), *_placement(params.draft_model, params.draft_kv_type)]
    if params.model.load_mtp:
        parts += ["mtp", params.draft_kv_type]
    if (offload := params.settings["model.offload_min_batch"]) not in (None, DEFAULT_OFFLOAD):
        parts.append(f"offload {offload}")
    return _name(parts)


def states_identity(params: PairParams) -> str:
    """Hash everything that a saved state depends on: models, caches and build.

    Raises:
        OSError: A model file cannot be read.
    """
    parts = [
        fingerprint(params.target),
        params.kv_type,
        str(params.n_ctx or params.n_ctx_auto),
        params.settings["model.flash_attn"],
        build_identity(),
    ]
    if params.draft is not None:
        parts += [fingerprint(params.draft), params.draft_kv_type, str(N_SNAPSHOTS)]
    if params.model.load_mtp:
        parts += ["mtp", str(N_SNAPSHOTS)]
    if params.settings["model.swa_full"] == "off":
        parts += ["small window cache"]
    return _name(parts)


def fingerprint(path: Path) -> str:
    """Return an identity of a model file's content. Raises OSError if it cannot be read."""
    status = regular_file.status(path)
    return _sample(path, status.st_size, status.st_mtime_ns)


@lru_cache
def _sample(path: Path, size: int, _mtime_ns: int) -> str:
    with path.open("rb") as file:
        digest = hashlib.sha256(f"{size}\n".encode() + file.read(_SAMPLE_BYTES))
        file.seek(max(0, size - _SAMPLE_BYTES))
        digest.update(file.read(_SAMPLE_BYTES))
    return digest.hexdigest()


def _devices(model: ModelParams) -> Mapping[str, str]:
    """Return the devices of a model with their descriptions; load llama.cpp only if its list of devices matters."""
    if model.on_cpu or (not model.devices and is_cpu_only_build()):
        return {}
    from app.llama.devices import description
    from app.llama.loading import devices_of

    return {name: description(handle) if handle is not None else "" for name, handle in devices_of(model).items()}


def _placement(model: ModelParams, kv_type: str) -> tuple[str, ...]:
    devices = _devices(model)
    experts: tuple[str, ...] = ()
    # Planned shares depend on the free memory.
    shares = ",".join(f"{share / sum(model.tensor_split):.1f}" for share in model.tensor_split)
    if model.cpu_experts:
        # Round to steps of a fifth: an automatic number depends on that memory, too.
        experts = (f"experts 2^{round(_STEPS_OF_EXPERTS * math.log2(model.cpu_experts))}",)
    label = " + ".join(devices) or CPU_LABEL
    return label, *devices.values(), str(model.n_gpu_layers), shares, kv_type, *model.overrides, *experts


def _name(parts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


STATISTICS_FORMAT = 1
_LONGEST_NS = 1e13
"""Longest possible batch: nearly three hours."""
_MOST_RECHECKS = 20
log = logging.getLogger("tandem.memory")
log.addHandler(logging.NullHandler())


def save_statistics(path: Path | None, memory: PairStatistics) -> OSError | None:
    """Write statistics atomically; return the disk error, if any."""
    profile = memory.costs.snapshot()
    raw = {
        "format": STATISTICS_FORMAT,
        "rows": profile.batch_ns,
        "draft_ns": profile.draft_ns,
        "cells": profile.context_ns,
        "draft_prompt_ns": profile.draft_prompt_ns,
        "draft_start_ns": profile.draft_start_ns,
        "widest": profile.max_batch,
        "gain": None if memory.gain is None else max(0.0, memory.gain),
        "balance": max(0.0, memory.ledger.balance),
        "model": memory.model.counts,
        "lookup": memory.ngram.counts,
        "trial": {"on": memory.trial.on},
        "idle_answers": memory.idle_answers,
        "n_looks": memory.n_rechecks,
        "least_ns": memory.least_ns,
        "measured_ns": memory.measured_ns,
        "estimated": memory.is_estimated,
    }
    return _save(path, raw)


def _save(path: Path | None, raw: dict[str, Any]) -> OSError | None:
    try:
        if path is not None:
            atomic.write_json(path, raw)
    except OSError as error:
        log.warning("measurements cannot be kept: %s", error)
        return error
    return None


def load_statistics(path: Path | None) -> PairStatistics | None:
    """Read statistics, if there are usable ones."""
    return atomic.read_json(path, STATISTICS_FORMAT, _statistics) if path is not None else None


def _statistics(raw: dict[str, Any]) -> PairStatistics:
    # Earlier versions measured larger batches.
    batch_ns = {int(size): max(1.0, _number(ns)) for size, ns in raw["rows"].items() if int(size) <= MAX_BATCH}
    if 1 not in batch_ns or min(batch_ns) < 1:
        raise ValueError("the cost curve is incomplete")
    profile = CostProfile(
        batch_ns,
        draft_ns=_number(raw["draft_ns"]),
        context_ns={int(size): _number(ns) for size, ns in raw["cells"].items()},
        draft_prompt_ns=_number(raw["draft_prompt_ns"]),
        draft_start_ns=_number(raw.get("draft_start_ns", 0.0)),
        max_batch=max(1, min(MAX_BATCH, int(raw["widest"]))),
    )
    return PairStatistics(
        costs=CostModel(profile),
        model=_table(model_table, raw["model"]),
        ngram=_table(ngram_table, raw["lookup"]),
        trial=Trial(on=bool(raw["trial"]["on"])),
        gain=None if raw["gain"] is None else min(1.0, _number(raw["gain"])),
        ledger=Ledger(balance=min(Ledger.CAP, _number(raw["balance"]))),
        idle_answers=int(raw["idle_answers"]),
        n_rechecks=min(_MOST_RECHECKS, int(raw["n_looks"])),
        least_ns=_number(raw["least_ns"]),
        measured_ns=_number(raw["measured_ns"]),
        is_estimated=raw.get("estimated") is True,
    )


def _table(make: Callable[[list[list[list[float]]]], AcceptanceTable], counts: Any) -> AcceptanceTable:
    table = make([[[_number(n) for n in pair] for pair in place] for place in counts])
    shape = [len(table.prior)] * 2
    if [len(place) for place in counts] != shape or any(len(pair) != 2 for place in counts for pair in place):
        raise ValueError("the acceptance counts have another shape")
    return table


def _number(value: Any) -> float:
    number = float(value)
    if not 0 <= number <= _LONGEST_NS:
        raise ValueError(f"{value} is no measurement")
    return number


THREADS_FORMAT = 1


def save_threads(path: Path | None, times: ThreadTimes) -> OSError | None:
    """Write measured threads atomically; return the disk error, if any."""
    raw = {
        "format": THREADS_FORMAT,
        "threads": {"generation": times.best.generation, "prompt": times.best.prompt},
        "generation_ns": times.generation,
        "prompt_ns": times.prompt,
    }
    return _save(path, raw)


def load_threads(path: Path | None) -> Threads | None:
    """Return the numbers to use, if there is a usable measurement."""
    return atomic.read_json(path, THREADS_FORMAT, _threads) if path is not None else None


def _threads(raw: Any) -> Threads:
    chosen = raw["threads"]
    generation, prompt = chosen["generation"], chosen["prompt"]
    if not all(type(n) is int and 0 < n <= MAX_THREADS for n in (generation, prompt)):
        raise ValueError(f"{generation} and {prompt} are no numbers of threads")
    return Threads(generation, prompt)
