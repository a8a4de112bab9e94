"""What models are called on the screen."""

from __future__ import annotations

from app.models.model_names import apart, file_type, known_as
from app.models.pair_info import ModelInfo
from app.models.pair_names import SAME_FILE


def model_name(model: ModelInfo) -> str:
    """The model without its quantisation."""
    return known_as(model.file, model.name)


def quantisation(model: ModelInfo) -> str:
    """Its file type as files spell it."""
    return file_type(model.quantisation)


def draft_name(target: ModelInfo, draft: ModelInfo) -> str:
    """What tells the draft from its target; empty if only the quantisation does."""
    return apart(model_name(target), model_name(draft))


def draft_text(target: ModelInfo, draft: ModelInfo) -> str:
    """What tells the draft from its target, with its quantisation; its file where these are the same."""
    name = draft_name(target, draft)
    if name or quantisation(target) != quantisation(draft):
        return f"{name} {quantisation(draft)}".strip()
    return draft.file if draft.file != target.file else SAME_FILE
