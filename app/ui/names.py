"""What models are called on the screen."""

from __future__ import annotations

from app.events import ModelInfo
from app.model_names import file_type, known_as


def model_name(model: ModelInfo) -> str:
    """The model without its quantisation."""
    return known_as(model.file, model.name)


def quantisation(model: ModelInfo) -> str:
    """Its file type as files spell it."""
    return file_type(model.quantisation)


def draft_name(target: ModelInfo, draft: ModelInfo) -> str:
    """What tells the draft from its target; empty if only the quantisation does."""
    theirs, ours = model_name(target).split("-"), model_name(draft).split("-")
    while theirs and ours and theirs[0].lower() == ours[0].lower():
        del theirs[0], ours[0]
    while theirs and ours and theirs[-1].lower() == ours[-1].lower():
        del theirs[-1], ours[-1]
    return "-".join(ours)
