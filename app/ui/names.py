"""Names of models on the screen."""

from __future__ import annotations

from app.models.model_names import apart, file_type, known_as
from app.models.pair_info import ModelInfo
from app.models.pair_names import SAME_FILE


def model_name(model: ModelInfo) -> str:
    """The model without its quantization."""
    return known_as(model.file, model.name)


def quantization(model: ModelInfo) -> str:
    """Its file type as files spell it."""
    return file_type(model.quantization)


def draft_name(target: ModelInfo, draft: ModelInfo) -> str:
    """Return what tells the draft from its target; empty if only the quantization does."""
    return apart(model_name(target), model_name(draft))


def draft_text(target: ModelInfo, draft: ModelInfo) -> str:
    """Return what tells the draft from its target, with its quantization; its file where these are the same."""
    name = draft_name(target, draft)
    if name or quantization(target) != quantization(draft):
        return f"{name} {quantization(draft)}".strip()
    return draft.file if draft.file != target.file else SAME_FILE
