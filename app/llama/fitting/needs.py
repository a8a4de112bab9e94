"""What the models of a pair take of a machine's memory, by their headers and by llama.cpp's own reckoning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from app.hardware.device_room import MAIN
from app.llama.params import ModelParams
from app.models.memory_estimate import ModelMemory, estimate_memory
from app.models.model_facts import read_facts
from app.models.source import HubModel, ModelSource
from app.settings.placement import ALL_LAYERS

if TYPE_CHECKING:
    from app.llama.footprint import Part
    from app.llama.pair_params import PairParams
    from app.llama.params import ContextParams


def needs(params: PairParams, sources: Sequence[ModelSource | None]) -> tuple[ModelMemory, ModelMemory | None]:
    """What target and draft take, by their headers.

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
    """The needs by llama.cpp's own reckoning, where that can be had."""
    from app.llama.canary import Survivors
    from app.llama.footprint import measure

    survivors = Survivors(params.survivors_file)

    def of(need: ModelMemory, path: Path, model: ModelParams, context: ContextParams) -> ModelMemory:
        # Of a model in two places the figures alone do not tell what moves with a layer.
        in_part = ALL_LAYERS < model.n_gpu_layers <= need.n_layers and not model.on_cpu
        parts = measure(path, replace(model, n_gpu_layers=ALL_LAYERS) if in_part else model, context)
        if parts is None:
            return need
        survivors.add(path)
        found = by_parts(need, parts)
        return by_first_layer(found, path, model, context) if in_part else found

    measured = of(target, params.target, params.model, params.target_context(target.n_ctx))
    if draft is None or params.draft is None:
        return measured, None
    return measured, of(draft, params.draft, params.draft_model, params.draft_context(draft.n_ctx))


def by_first_layer(need: ModelMemory, path: Path, model: ModelParams, context: ContextParams) -> ModelMemory:
    """A need of a model that is to be in two places, by what llama.cpp reckons for its first layer on a device."""
    from app.llama.footprint import measure

    parts = measure(path, replace(model, n_gpu_layers=1), context) or ()
    there = [part for part in parts if part.device.lower() != MAIN]
    if not there:
        return need
    # The buffers are a little larger as soon as two places compute.
    compute = max(need.compute, *(part.compute for part in there))
    return replace(need, output=min(need.weights, sum(part.weights for part in there)), compute=compute)


def by_parts(need: ModelMemory, parts: Sequence[Part]) -> ModelMemory:
    """A need with llama.cpp's figures; where layers are on devices, what is in main memory stays there."""
    on_devices = [part for part in parts if part.device.lower() != MAIN]
    main = [part for part in parts if part.device.lower() == MAIN]
    holding = on_devices or main
    return replace(
        need,
        weights=sum(part.weights for part in holding),
        # llama.cpp counts running states with the cache.
        kv=max(0, sum(part.kv for part in parts) - need.states - need.snapshots),
        compute=max(part.compute for part in holding),
        host=sum(part.weights + part.compute for part in main) if on_devices else 0,
    )
