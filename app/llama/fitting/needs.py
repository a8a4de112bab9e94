"""Estimate the memory of a pair, from headers and from llama.cpp."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from app.llama.params import ModelParams
from app.models.memory_estimate import ModelMemory, estimate_memory
from app.models.model_facts import read_facts
from app.models.source import HubModel, ModelSource

if TYPE_CHECKING:
    from app.llama.footprint import Footprint
    from app.llama.pair_params import PairParams
    from app.llama.params import ContextParams


def needs(params: PairParams, sources: Sequence[ModelSource | None]) -> tuple[ModelMemory, ModelMemory | None]:
    """Return what target and draft take, by their headers.

    Args:
        params: What is to be loaded.
        sources: Where target and draft come from.

    Raises:
        ModelFileError: A file is missing or no model.
    """
    target, context = need_of(params, params.target, sources[0], None)
    if params.draft is None:
        return target, None
    return target, need_of(params, params.draft, sources[1], context)[0]


def need_of(params: PairParams, path: Path, source: ModelSource | None, n_ctx: int | None) -> tuple[ModelMemory, int]:
    """What a model takes, by its header, and its context length, which is the target's where `n_ctx` gives that."""
    facts = read_facts(path)
    context = params.target_context(facts.n_ctx_train) if n_ctx is None else params.draft_context(n_ctx)
    need = estimate_memory(
        facts,
        context.n_ctx,
        kv_type=context.kv_type,
        n_outputs=context.n_outputs,
        n_snapshots=context.n_snapshots,
        n_batch=context.n_batch,
        flash_attention=context.flash_attention != "off",
        repo=source.repo if isinstance(source, HubModel) else "",
        source=str(source or path),
    )
    return need, context.n_ctx


def measured_needs(
    params: PairParams, target: ModelMemory, draft: ModelMemory | None
) -> tuple[ModelMemory, ModelMemory | None]:
    """The needs by llama.cpp's own estimate, where that can be had."""
    from app.llama.canary import Survivors
    from app.llama.footprint import measure

    survivors = Survivors(params.survivors_file)

    def of(need: ModelMemory, path: Path, model: ModelParams, context: ContextParams) -> ModelMemory:
        found = measure(path, model, context)
        if found is None:
            return need
        survivors.add(path)
        return corrected(need, found)

    measured = of(target, params.target, params.model, params.target_context(target.n_ctx))
    if draft is None or params.draft is None:
        return measured, None
    return measured, of(draft, params.draft, params.draft_model, params.draft_context(draft.n_ctx))


def corrected(need: ModelMemory, found: Footprint) -> ModelMemory:
    """Return an estimate with llama.cpp's own figures for caches and buffers."""
    # llama.cpp counts recurrent states with the cache.
    kv = max(0, found.kv - need.states - need.snapshots)
    return replace(need, kv=kv, compute=found.compute, host=need.host + found.host)
