"""What a model file must be before llama.cpp sees it: inputs that abort the process there are sentences here."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from app.errors import ModelFileError
from app.gguf import GgufHeader, read_header

MAX_LAYERS = 512
"""LLAMA_MAX_LAYERS; llama.cpp asserts on more, and on none."""
_PROJECTOR = "clip"


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A file that was looked at and may be given to llama.cpp."""

    path: Path
    header: GgufHeader


def open_model_file(path: Path) -> ModelFile:
    """Look at a model file without loading it.

    Raises:
        ModelFileError: It is missing, cut short, or not a language model that llama.cpp survives.
    """
    header = read_header(path)
    _check(path, header)
    return ModelFile(path, header)


def _check(path: Path, header: GgufHeader) -> None:
    """Refuse a file that llama.cpp would abort on, or that is no language model.

    Raises:
        ModelFileError: With the reason.
    """

    def refuse(reason: str, hint: str = "The file is damaged or was made by a faulty tool; get another.") -> None:
        raise ModelFileError(f"{path} cannot be run: {reason}.", hint)

    if not header.architecture:
        if "split.no" in header.metadata:
            refuse("it is a later part of a split model", "Name the first part, ...-00001-of-....gguf.")
        refuse("it names no architecture", "It is a GGUF file, but not a model.")
    if header.architecture == _PROJECTOR:
        refuse("it is a vision projector, not a language model", "Name the model file that belongs to it.")
    layers = header.of_architecture("block_count")
    if isinstance(layers, int) and not 0 < layers <= MAX_LAYERS:
        refuse(f"it claims {layers} layers")
    epsilon = header.of_architecture("attention.layer_norm_rms_epsilon")
    if isinstance(epsilon, float) and not (math.isfinite(epsilon) and epsilon >= 0):
        refuse(f"its normalisation constant is {epsilon}")
    tokens = header.tokens
    if not tokens:
        refuse("it has no vocabulary", "It is a GGUF file, but not a model that can chat.")
    if len(set(tokens)) != len(tokens):
        text, _ = Counter(tokens).most_common(1)[0]
        refuse(f"its vocabulary has the token {text.decode('utf-8', errors='replace')!r} twice")
