"""Refuse files that are no chat model, or that llama.cpp would abort on, with a message.

`app.llama.canary` finds the rest of what it aborts on while loading; here are the frequent cases, and those that show
only after loading.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from app.core.errors import DamagedFileError, ModelFileError
from app.models.gguf import GgufHeader, read_header

MAX_LAYERS = 512
"""LLAMA_MAX_LAYERS; llama.cpp asserts on more, and on none."""
MIN_ALIGNMENT = 32
"""TENSOR_ALIGNMENT; weights that are mapped from the file must lie so."""
_PROJECTOR, _ADAPTER = "clip", "adapter"
_NO_TOKENIZER = ("none", "no_vocab")
_SENTENCEPIECE = "llama"
_EPSILONS = (
    "attention.layer_norm_epsilon",
    "attention.layer_norm_rms_epsilon",
    "attention.group_norm_epsilon",
    "hyper_connection.epsilon",
)
_FAULTY = "The file is damaged or was made by a faulty tool; get another."


@dataclass(frozen=True, slots=True)
class ModelFile:
    """Checked file that may be given to llama.cpp."""

    path: Path
    header: GgufHeader


class _Unfit(Exception):  # noqa: N818 - a reason on its way to its sentence
    def __init__(self, reason: str, hint: str = _FAULTY) -> None:
        super().__init__(reason)
        self.hint = hint


def open_model_file(path: Path) -> ModelFile:
    """Check a model file without loading it.

    Raises:
        ModelFileError: It is missing, or not a language model.
        DamagedFileError: It is truncated, or llama.cpp would abort on it.
    """
    header = read_header(path)
    try:
        _check_kind(header)
        _check_numbers(header)
        _check_vocabulary(header)
    except _Unfit as error:
        kind = DamagedFileError if error.hint == _FAULTY else ModelFileError
        raise kind(f"{path} cannot be run: {error}.", error.hint) from None
    return ModelFile(path, header)


def _check_kind(header: GgufHeader) -> None:
    if header.metadata.get("general.type") == _ADAPTER:
        raise _Unfit("it is an adapter for a model, not a model", "Name the model file that it was made for.")
    if not header.architecture:
        if "split.no" in header.metadata:
            raise _Unfit("it is a later part of a split model", "Name the first part, ...-00001-of-....gguf.")
        raise _Unfit("it names no architecture", "It is a GGUF file, but not a model.")
    if header.architecture == _PROJECTOR:
        raise _Unfit("it is a vision projector, not a language model", "Name the model file that belongs to it.")


def _check_numbers(header: GgufHeader) -> None:
    """Refuse numbers that llama.cpp asserts on; it refuses wrong types by itself."""
    alignment = header.metadata.get("general.alignment")
    if isinstance(alignment, int) and alignment < MIN_ALIGNMENT:
        raise _Unfit(f"its data lies at multiples of {alignment} bytes, which is too narrow")
    layers = header.of_architecture("block_count")
    if isinstance(layers, int) and not 0 < layers <= MAX_LAYERS:
        raise _Unfit(f"it claims {layers} layers")
    for key in _EPSILONS:
        epsilon = header.of_architecture(key)
        # NaN lies in no interval.
        if isinstance(epsilon, float) and not 0 <= epsilon < math.inf:
            raise _Unfit(f"its normalization constant is {epsilon}")


def _check_vocabulary(header: GgufHeader) -> None:
    kind = header.metadata.get("tokenizer.ggml.model")
    # llama.cpp reads C strings: two texts that differ only behind a zero byte are one to it.
    tokens = [token.partition(b"\0")[0] for token in header.tokens]
    if not tokens or kind in _NO_TOKENIZER:
        raise _Unfit("it has no vocabulary", "It is a GGUF file, but not a model that can chat.")
    # llama.cpp gives the empty ones names of their own.
    if twice := [text for text, n in Counter(filter(None, tokens)).most_common(1) if n > 1]:
        text = twice[0]
        raise _Unfit(f"its vocabulary has the token {text[:40].decode('utf-8', errors='replace')!r} twice")
    if kind == _SENTENCEPIECE:
        _check_bytes(set(tokens))


def _check_bytes(tokens: set[bytes]) -> None:
    """Refuse a vocabulary without a token for every byte; llama.cpp aborts when it needs one."""
    missing = next((b for b in range(256) if b"<0x%02X>" % b not in tokens and bytes([b]) not in tokens), None)
    if missing is not None:
        raise _Unfit(f"its vocabulary has no token for the byte {missing:#04x}")
