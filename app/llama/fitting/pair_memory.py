"""Estimate the memory of a pair that is to be loaded: from its headers, or by llama.cpp itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from app.core.errors import AppError
from app.llama.child import SafeFiles
from app.models.memory_estimate import ModelMemory, draft_memory, estimate_memory, with_tensors
from app.models.model_facts import ModelFacts, read_facts

if TYPE_CHECKING:
    from app.llama.params import ContextParams, ModelParams, PairParams


def needs(params: PairParams) -> tuple[ModelMemory, ModelMemory | None]:
    """Estimate the memory of target and draft from their headers.

    Raises:
        ModelFileError: A file is missing or not a model.
    """
    facts, draft_facts = facts_of_pair(params)
    target, draft = estimates(params, facts, draft_facts)
    n_unused = 0 if params.model.load_mtp else facts.n_mtp_layers
    target = with_tensors(target, params.target, params.model.overrides, n_unused=n_unused)
    target = replace(target, projector=_projector_bytes(params))
    if draft is not None and params.draft is not None and params.draft != params.target:
        draft = with_tensors(draft, params.draft)
    return target, draft


def _projector_bytes(params: PairParams) -> int:
    if params.projector is None:
        return 0
    from app.llama.projector_loading import projector_bytes

    try:
        return projector_bytes(params)
    except AppError:
        # The load reports it.
        return 0


def facts_of_pair(params: PairParams) -> tuple[ModelFacts, ModelFacts | None]:
    """Read the headers of target and draft; None without a draft file. Raises ModelFileError."""
    facts = read_facts(params.target)
    if params.draft is None:
        return facts, None
    return facts, read_facts(params.draft) if params.draft != params.target else facts


def estimates(
    params: PairParams, facts: ModelFacts, draft_facts: ModelFacts | None
) -> tuple[ModelMemory, ModelMemory | None]:
    """Estimate the memory of target and draft with their context, before any tensor is placed by itself."""
    context = params.target_context(facts.n_ctx_train)
    target = estimate_memory(facts, context.shape)
    if params.draft is None and not params.model.load_mtp:
        return target, None
    own = params.draft_context(context.n_ctx).shape
    return target, draft_memory(facts, draft_facts, own, params.model.overrides)


def measured_needs(
    params: PairParams, target: ModelMemory, draft: ModelMemory | None
) -> tuple[ModelMemory, ModelMemory | None]:
    """Return the memory by llama.cpp's own estimate, where available."""
    from app.llama.footprint import measure

    safe = SafeFiles(params.safe_files)

    def of(need: ModelMemory, path: Path, model: ModelParams, context: ContextParams) -> ModelMemory:
        found = measure(need, path, model, context)
        if found is not need:
            safe.add(path)
        return found

    measured = of(target, params.target, params.model, params.target_context(target.n_ctx))
    if draft is None or params.draft is None:
        return measured, draft
    return measured, of(draft, params.draft, params.draft_model, params.draft_context(draft.n_ctx))
