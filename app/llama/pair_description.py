"""Describe a loaded pair as values, for the screen and for JSON."""

from __future__ import annotations

from dataclasses import replace

from app.engine.cache import TokenCache
from app.engine.sources import IN_TARGET
from app.llama.draft_slot import DraftSlot
from app.llama.loading import label
from app.llama.model import Model
from app.llama.params import PairParams
from app.models.model_facts import keeps_snapshots
from app.models.model_names import file_type
from app.models.pair_info import DeviceMemory, ModelInfo, PairInfo
from app.settings.layers import ThinkingSupport


def describe(
    params: PairParams,
    model: Model,
    draft: DraftSlot,
    cache: TokenCache,
    thinking: ThinkingSupport,
    projector: str | None,
    memory: tuple[DeviceMemory, ...],
) -> PairInfo:
    """Return a loaded pair as values; `model` and `cache` are the target's, `projector` is a file name."""
    on_target, on_draft = label(params.model), label(params.draft_model)
    n_rollback, n_ctx = cache.n_rollback, cache.n_ctx
    kind, info = draft.drafter.kind if draft.drafter is not None else None, _info(model)
    in_target = replace(info, name=IN_TARGET, file="", quantization="", size_bytes=0) if kind is not None else None
    return PairInfo(
        target=info,
        draft=_info(draft.model) if draft.model is not None else in_target,
        n_ctx=n_ctx,
        device=on_target if draft.model is None or on_draft == on_target else f"{on_target}, draft on {on_draft}",
        memory=memory,
        n_ctx_room=params.n_ctx_room,
        most_drafted=n_rollback if n_rollback < n_ctx else None,
        wants_draft_model=not n_rollback and keeps_snapshots(model.header),
        thinking_support=thinking,
        draft_kind=kind,
        projector=projector,
    )


def _info(model: Model) -> ModelInfo:
    return ModelInfo(
        name=model.name,
        file=model.path.name,
        quantization=file_type(model.quantization),
        size_bytes=model.size_bytes,
        n_vocab=model.n_vocab,
        n_ctx_train=model.n_ctx_train,
        chat_template=model.chat_template or "",
        bos=model.text_of(model.vocab.bos),
        eos=model.text_of(model.vocab.eos),
    )
