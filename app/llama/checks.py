"""Refuse files that are no chat model, and files on which llama.cpp would abort only after loading.

`app.llama.child` finds files on which it aborts while loading.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from app.core.errors import DamagedFileError, ModelFileError
from app.models.compatibility import NO_VOCABULARY
from app.models.gguf import GgufHeader, read_header

_MIN_ALIGNMENT = 32
"""TENSOR_ALIGNMENT, required for weights that are mapped from the file."""
_EPSILON_KEYS = (
    "attention.layer_norm_epsilon",
    "attention.layer_norm_rms_epsilon",
    "attention.group_norm_epsilon",
    "hyper_connection.epsilon",
)


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A checked file, safe for llama.cpp."""

    path: Path
    header: GgufHeader


def open_model_file(path: Path, *, is_draft: bool = False) -> ModelFile:
    """Check a model file without loading it.

    Raises:
        ModelFileError: It is missing, or not a language model.
        DamagedFileError: It is truncated, or llama.cpp would abort on it, or it cannot be a draft.
    """
    header = read_header(path, tensors=True)
    if found := _other_kind(header):
        reason, hint = found
        if is_draft:
            raise DamagedFileError(
                f"{path.name} cannot be used as a draft: {reason}.", "Choose another draft, or none."
            )
        raise ModelFileError(f"{path} cannot be run: {reason}.", hint)
    if reason := _fault(header):
        hint = "The file is damaged or was made by a faulty tool; get another."
        raise DamagedFileError(f"{path} cannot be run: {reason}.", hint)
    return ModelFile(path, header)


def _other_kind(header: GgufHeader) -> tuple[str, str] | None:
    """Return why a file is no chat model, and what to do, if that is so."""
    if header.metadata.get("general.type") == "adapter":
        return "it is an adapter for a model, not a model", "Name the model file that it was made for."
    if not header.architecture:
        if "split.no" in header.metadata:
            return "it is a later part of a split model", "Name the first part, ...-00001-of-....gguf."
        return "it names no architecture", "It is a GGUF file, but not a model."
    if header.architecture == "clip":
        return "it is a vision projector, not a language model", "Name the model file that belongs to it."
    if not header.tokens or header.metadata.get("tokenizer.ggml.model") in ("none", "no_vocab"):
        return NO_VOCABULARY, "It is a GGUF file, but not a model that can chat."
    return None


def _fault(header: GgufHeader) -> str:
    alignment = header.metadata.get("general.alignment")
    if isinstance(alignment, int) and alignment < _MIN_ALIGNMENT:
        return f"its data lies at multiples of {alignment} bytes, which is too narrow"
    for epsilon in map(header.of_architecture, _EPSILON_KEYS):
        # NaN is in no interval.
        if isinstance(epsilon, float) and not 0 <= epsilon < math.inf:
            return f"its normalization constant is {epsilon}"
    # llama.cpp reads C strings, so texts that differ only after a zero byte are equal to it.
    tokens = [token.partition(b"\0")[0] for token in header.tokens]
    # llama.cpp gives empty tokens their own names.
    if twice := [text for text, n in Counter(filter(None, tokens)).most_common(1) if n > 1]:
        return f"its vocabulary has the token {twice[0][:40].decode('utf-8', errors='replace')!r} twice"
    if header.metadata.get("tokenizer.ggml.model") == "llama":
        # SentencePiece needs a token for every byte.
        known = set(tokens)
        missing = next((b for b in range(256) if b"<0x%02X>" % b not in known and bytes([b]) not in known), None)
        if missing is not None:
            return f"its vocabulary has no token for the byte {missing:#04x}"
    return ""
