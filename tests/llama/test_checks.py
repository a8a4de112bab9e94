"""Files that llama.cpp would abort on, or that are no chat models, are refused from their header."""

from pathlib import Path
from typing import Any

import pytest

from app.core.errors import DamagedFileError, ModelFileError
from app.llama.checks import open_model_file
from tests.llama.gguf_files import F64, I32, STRING, Array, Typed, header, tiny, write


def refused(path: Path, match: str) -> ModelFileError:
    with pytest.raises(ModelFileError, match=match) as caught:
        open_model_file(path)
    error = caught.value
    assert str(path) in error.message
    assert error.message.endswith(".")
    assert error.hint
    return error


def test_a_valid_header_passes(tmp_path: Path) -> None:
    file = open_model_file(write(tmp_path / "m.gguf", header(tiny())))
    assert file.header.architecture == "llama"


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"general__alignment": 1}, "multiples of 1 bytes"),
        ({"general__alignment": 16}, "too narrow"),
        ({"llama__attention__layer_norm_rms_epsilon": -1e-5}, "normalization constant"),
        ({"llama__attention__layer_norm_rms_epsilon": float("nan")}, "normalization constant is nan"),
        ({"llama__attention__layer_norm_epsilon": float("inf")}, "normalization constant is inf"),
        ({"llama__attention__group_norm_epsilon": float("nan")}, "normalization constant"),
        ({"tokenizer__ggml__tokens": Array(STRING, ["a", "b", "a"])}, "has the token 'a' twice"),
        ({"tokenizer__ggml__tokens": Array(STRING, [b"a", b"b\0x", b"b\0y"])}, "has the token 'b' twice"),
        ({"tokenizer__ggml__tokens": Array(STRING, [])}, "no vocabulary"),
        ({"tokenizer__ggml__tokens": None}, "no vocabulary"),
        ({"tokenizer__ggml__tokens": Array(I32, [1])}, "no vocabulary"),
        ({"tokenizer__ggml__model": "none"}, "no vocabulary"),
        ({"tokenizer__ggml__model": "no_vocab"}, "no vocabulary"),
        ({"tokenizer__ggml__model": "llama"}, "no token for the byte 0x00"),
        ({"general__architecture": None}, "names no architecture"),
        ({"general__architecture": 3}, "names no architecture"),
        ({"general__architecture": "clip"}, "vision projector"),
        ({"general__type": "adapter"}, "an adapter for a model"),
        ({"general__architecture": None, "split__no": 1}, "later part of a split model"),
    ],
)
def test_a_file_that_would_abort_llama_cpp_is_refused(tmp_path: Path, changes: dict[str, Any], match: str) -> None:
    refused(write(tmp_path / "m.gguf", header(tiny(**changes))), match)


def test_a_file_that_is_no_model_is_refused_as_a_draft(tmp_path: Path) -> None:
    file = write(tmp_path / "m.gguf", header(tiny(tokenizer__ggml__tokens=None)))

    with pytest.raises(DamagedFileError, match=r"m\.gguf cannot be used as a draft: its file has no vocabulary"):
        open_model_file(file, is_draft=True)


@pytest.mark.parametrize(
    "changes",
    [
        {"llama__attention__layer_norm_rms_epsilon": 0.0},
        {"llama__attention__layer_norm_rms_epsilon": "small"},
        {"tokenizer__ggml__tokens": Array(STRING, ["", "a", b"\0"])},
        {
            "tokenizer__ggml__model": "llama",
            "tokenizer__ggml__tokens": Array(STRING, [f"<0x{b:02X}>" if b != 65 else "A" for b in range(256)]),
        },
        {"general__name": Typed(F64, 1.0)},
    ],
)
def test_a_file_that_llama_cpp_checks_itself_passes(tmp_path: Path, changes: dict[str, Any]) -> None:
    open_model_file(write(tmp_path / "m.gguf", header(tiny(**changes))))


def test_a_token_in_an_error_is_printable(tmp_path: Path) -> None:
    token = "\x1b[2J" * 100
    error = refused(
        write(tmp_path / "m.gguf", header(tiny(tokenizer__ggml__tokens=Array(STRING, [token, token])))), "twice"
    )
    assert error.message.isprintable()
    assert len(error.message) < len(str(tmp_path)) + 300
