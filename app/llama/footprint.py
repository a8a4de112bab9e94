"""Ask llama.cpp how much memory a load takes, before it allocates any.

A load with `no_alloc` lays out weights, KV cache and compute buffers, and logs the sizes of caches and buffers. It runs
in a child process, because a model file or a driver may end the process.

The sizes hold for the same share of the layers on each device. On several devices they are slightly high: without
memory, llama.cpp (`ggml_backend_sched_reserve_size`) forgets where norms belong and copies hidden rows twice, which is
32 MiB with a width of 4,096.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from app.core.child import ChildError, ask
from app.core.errors import AppError
from app.engine.sources import Source
from app.llama import library
from app.llama.batch import native_params
from app.llama.devices import add_servers
from app.llama.draft_heads import other_context
from app.llama.library import native
from app.llama.loading import place
from app.llama.params import PairParams
from app.models.draft_kinds import MTP_IN_TARGET, head_facts
from app.models.gguf import read_header
from app.models.memory_estimate import N_SNAPSHOTS, ModelMemory
from app.settings.model_params import ContextParams, ModelParams
from app.settings.placement import CPU

_LOAD_MODE_READ = 0
MIB = 1 << 20
_CACHE_SIZE_LINE = re.compile(r"^\w+: size =\s*([\d.]+) MiB \(", re.MULTILINE)
"""Log line of a KV cache or of recurrent states."""
COMPUTE_BUFFER_LINE = re.compile(r"(\S+) compute buffer size =\s*([\d.]+) MiB")
_IN_RAM = re.compile(r"^CPU|_Host$")


def measure(need: ModelMemory, path: Path, model: ModelParams, context: ContextParams) -> ModelMemory:
    """Return the memory of a load with llama.cpp's own sizes of caches and buffers; unchanged if it reports none.

    Takes a quarter of a second and reads no weights.
    """
    try:
        found = corrected(need, ask("llama.footprint.log_of_load", path, model, context))
    except (AppError, ChildError):
        return need
    # The buffers of this load include the copy.
    return replace(found, expert_copy=0) if found is not need and model.cpu_experts else found


def corrected(need: ModelMemory, log: str) -> ModelMemory:
    """Return an estimate with the sizes in llama.cpp's log; unchanged if a line is missing."""
    caches = [float(size) for size in _CACHE_SIZE_LINE.findall(log)]
    buffers = [(name, float(size)) for name, size in COMPUTE_BUFFER_LINE.findall(log)]
    if not caches or not buffers:
        return need
    on_devices = {name: size for name, size in buffers if not _IN_RAM.search(name)}
    in_ram = sum(size for name, size in buffers if _IN_RAM.search(name))
    compute, host = (max(on_devices.values()), in_ram) if on_devices else (in_ram, 0.0)
    compute_on = tuple((name.lower(), round(size * MIB)) for name, size in on_devices.items())
    # llama.cpp counts recurrent states with the cache.
    kv = max(0, round(sum(caches) * MIB) - need.states - need.snapshots)
    host_bytes = need.host + round(host * MIB)
    return replace(need, kv=kv, compute=round(compute * MIB), compute_on=compute_on, host=host_bytes)


def log_of_load(path: Path, model: ModelParams, context: ContextParams) -> str:
    """Return llama.cpp's log of a load without memory, if it loads the file, in the child of `measure`."""
    with library.captured_log() as log:
        return log() if load_nothing(path, model, context) else ""


def try_load(path: Path) -> bool:
    """Return whether llama.cpp loads a file, in the child of `app.llama.child`."""
    context = ContextParams(256, n_snapshots=N_SNAPSHOTS)
    return load_nothing(path, ModelParams(devices=(CPU,)), context)


def try_head(path: Path, pair: PairParams) -> bool:
    """Return whether llama.cpp creates the context of draft layers on their devices; `path` is the target's for MTP.

    Runs in the child of `app.llama.child`.
    """
    facts = head_facts(read_header(path, tensors=True, vocabulary=False)) or MTP_IN_TARGET
    is_mtp = facts.kind is Source.MTP
    library.start()
    add_servers(pair.addresses)
    places = {pair.target: pair.model, path: pair.draft_model if path != pair.target else pair.model}
    models = [no_alloc(file, replace(place, load_mtp=is_mtp and file == path)) for file, place in places.items()]
    params = ContextParams(256)
    context = native.llama_init_from_model(models[0], native_params(params)) if all(models) else None
    if not context:
        return False
    # llama.cpp computes the Markov head of a DSpark block only in batches up to the block's length.
    sizes = (params.n_batch, facts.block_size or params.n_batch)
    contexts = (other_context(native_params(replace(params, n_batch=n)), context, is_mtp=is_mtp) for n in sizes)
    return all(native.llama_init_from_model(models[-1], one) for one in contexts)


def load_nothing(path: Path, model: ModelParams, context: ContextParams) -> bool:
    """Load a model and create its context without memory, in a process that does nothing else; free neither.

    Returns:
        Whether llama.cpp accepts both.
    """
    library.start()
    handle = no_alloc(path, model)
    return bool(handle and native.llama_init_from_model(handle, native_params(context)))


def no_alloc(path: Path, model: ModelParams) -> Any:
    """Load a model without allocating its tensors; return None if llama.cpp refuses it."""
    raw: Any = native.llama_model_default_params()
    kept = place(raw, model)
    raw.no_alloc = True
    raw.load_mode = _LOAD_MODE_READ
    handle = native.llama_model_load_from_file(os.fsencode(path), raw)
    del kept
    return handle
