"""Write small GGUF files, valid and invalid."""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
_FORMATS = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f", BOOL: "?", U64: "Q", I64: "q", F64: "d"}


@dataclass(frozen=True)
class Typed:
    """A value written as the given type."""

    kind: int
    value: Any


@dataclass(frozen=True)
class Array:
    """An array of elements of the given type."""

    kind: int
    values: Any


def text(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(data)) + data


def _scalar(kind: int, value: Any) -> bytes:
    return text(value) if kind == STRING else struct.pack(f"<{_FORMATS[kind]}", value)


def pair(key: str | bytes, value: Any) -> bytes:
    """Return a key with its value; plain Python values get the type that model files use."""
    match value:
        case Array(kind, values):
            body = struct.pack("<IIQ", ARRAY, kind, len(values)) + b"".join(_scalar(kind, v) for v in values)
        case Typed(kind, inner):
            body = struct.pack("<I", kind) + _scalar(kind, inner)
        case bool():
            body = struct.pack("<I", BOOL) + _scalar(BOOL, value)
        case int():
            body = struct.pack("<I", U32) + _scalar(U32, value)
        case float():
            body = struct.pack("<I", F32) + _scalar(F32, value)
        case _:
            body = struct.pack("<I", STRING) + text(value)
    return text(key) + body


def header(
    values: Mapping[str, Any] | bytes = b"",
    *,
    version: int = 3,
    n_tensors: int = 0,
    n_values: int | None = None,
) -> bytes:
    """Return a header; `n_values` is the claimed number of values if `values` are bytes."""
    if not isinstance(values, bytes):
        n_values = len(values) if n_values is None else n_values
        values = b"".join(pair(key, value) for key, value in values.items())
    return b"GGUF" + struct.pack("<IQQ", version, n_tensors, n_values or 0) + values


def tiny(**changes: Any) -> dict[str, Any]:
    """Return the metadata of a language model; `changes` write `__` for dots, None leaves a key out."""
    values: dict[str, Any] = {
        "general.architecture": "llama",
        "general.name": "tiny",
        "llama.context_length": 64,
        "llama.embedding_length": 32,
        "llama.block_count": 1,
        "llama.feed_forward_length": 32,
        "llama.attention.head_count": 1,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.tokens": Array(STRING, ["a", "b", "c"]),
        "tokenizer.ggml.token_type": Array(I32, [1, 1, 3]),
        "tokenizer.ggml.merges": Array(STRING, ["a b"]),
    }
    values.update({key.replace("__", "."): value for key, value in changes.items()})
    return {key: value for key, value in values.items() if value is not None}


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path
