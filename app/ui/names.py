"""What models are called on the screen."""

from __future__ import annotations

import re
from pathlib import PurePath

from app.events import ModelInfo

# File names tell what people know a model by; the name inside a file is often that of a training run.
_QUANTISATION = re.compile(
    r"[-._](?:ud-)?(?:i?q\d+(?:_\w+)?|tq\d_\d|b?f16|f32|fp16|mxfp4)(?![a-z0-9]).*$", re.IGNORECASE
)
_SHARD = re.compile(r"-\d{5}-of-\d{5}$")
_NAMELESS = re.compile(r"^(?:sha256-)?[0-9a-f]{16,}$|^(?:ggml-)?model$", re.IGNORECASE)
_SIZES = {"Small": "_S", "Medium": "_M", "Large": "_L"}


def model_name(model: ModelInfo) -> str:
    """The model without its quantisation."""
    stem = _QUANTISATION.sub("", _SHARD.sub("", PurePath(model.file).name.removesuffix(".gguf")))
    return stem if stem and not _NAMELESS.match(stem) else model.name


def quantisation(model: ModelInfo) -> str:
    """llama.cpp's name of the file type as files spell it: "Q4_K - Medium" is Q4_K_M."""
    head, _, size = model.quantisation.partition(" - ")
    # The one type without a size in its file name.
    return head if head == "Q2_K" and size == "Medium" else head + _SIZES.get(size, "")


def draft_name(target: ModelInfo, draft: ModelInfo) -> str:
    """What tells the draft from its target; empty if only the quantisation does."""
    theirs, ours = model_name(target).split("-"), model_name(draft).split("-")
    while theirs and ours and theirs[0].lower() == ours[0].lower():
        del theirs[0], ours[0]
    while theirs and ours and theirs[-1].lower() == ours[-1].lower():
        del theirs[-1], ours[-1]
    return "-".join(ours)
