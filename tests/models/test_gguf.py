"""The header reader: valid files are read, invalid files give one sentence, and neither takes long."""

import contextlib
import mmap
import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.errors import DamagedFileError, ModelFileError
from app.models import gguf
from app.models.gguf import HeaderError, HeaderIncompleteError, parse_header, read_header
from tests.llama.gguf_files import (
    ARRAY,
    BOOL,
    F32,
    F64,
    I32,
    STRING,
    U8,
    U16,
    U64,
    Array,
    Typed,
    header,
    pair,
    text,
    tiny,
    write,
)

posix = pytest.mark.skipif(os.name != "posix", reason="POSIX only")
VALID = header(
    tiny(
        tiny__u8=Typed(U8, 7),
        tiny__u64=Typed(U64, 1 << 60),
        tiny__f64=Typed(F64, 0.5),
        tiny__flag=True,
        tiny__floats=Array(F32, [1.0, 2.0]),
        tiny__flags=Array(BOOL, [True, False]),
        tiny__layers=Array(I32, [1, -2]),
        tiny__none=Array(STRING, []),
    ),
    n_tensors=5,
)


def incomplete(data: bytes) -> None:
    with pytest.raises(HeaderIncompleteError):
        parse_header(data)


def wrong(data: bytes, match: str) -> None:
    with pytest.raises(HeaderError, match=match) as caught:
        parse_header(data)
    assert not isinstance(caught.value, HeaderIncompleteError)


def refused(path: Path, match: str) -> ModelFileError:
    with pytest.raises(ModelFileError, match=match) as caught:
        read_header(path)
    error = caught.value
    assert error.exit_code == 1
    assert error.hint
    assert error.message.endswith(".")
    assert not error.message.endswith("..")
    assert "\n" not in error.message
    return error


# Valid headers


def test_a_header_is_read() -> None:
    found = parse_header(VALID)
    assert found.architecture == "llama"
    assert found.of_architecture("block_count") == 1
    assert found.tokens == [b"a", b"b", b"c"]
    assert found.token_types == [1, 1, 3]
    assert {key: found.metadata[f"tiny.{key}"] for key in ("u8", "u64", "f64", "flag")} == {
        "u8": 7,
        "u64": 1 << 60,
        "f64": 0.5,
        "flag": True,
    }
    assert found.metadata["tiny.layers"] == [1, -2]
    assert found.metadata["tiny.floats"] is None


def test_values_of_another_type_are_ignored() -> None:
    empty = parse_header(header())
    assert (empty.architecture, empty.tokens, empty.token_types) == ("", [], [])
    odd = parse_header(header({"general.architecture": 3, gguf.TOKENS_KEY: "x", gguf.TYPES_KEY: 1.0}))
    assert (odd.architecture, odd.tokens, odd.token_types) == ("", [], [])


# Invalid headers


@given(st.integers(0, len(VALID) - 1))
def test_every_beginning_of_a_header_is_incomplete(length: int) -> None:
    incomplete(VALID[:length])


@settings(max_examples=100)
@given(st.lists(st.tuples(st.integers(0, len(VALID) - 1), st.integers(0, 255)), min_size=1, max_size=4))
def test_changed_bytes_are_read_or_refused_and_nothing_else(changes: list[tuple[int, int]]) -> None:
    data = bytearray(VALID)
    for at, byte in changes:
        data[at] = byte
    with contextlib.suppress(HeaderError):
        parse_header(bytes(data))


REFUSED: list[tuple[bytes, str]] = [
    *((header(version=version), rf"version {version};") for version in (0, 1, 4, 99, 0x03000000)),
    (b"ggml" + VALID[4:], "does not begin with GGUF"),
    (b"\x7fELF" + b"\0" * 40, "does not begin with GGUF"),
    (b"hello, world", "does not begin with GGUF"),
    (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git lfs pull downloads the file"),
    (b"\n<!DOCTYPE html>\n<title>Log in</title>", "a web page"),
    (b"<html>", "a web page"),
    *((header(b"\0" * 4096, n_values=n), "claims") for n in (1 << 28, 1 << 31, 1 << 62, (1 << 64) - 1)),
    (header(text(gguf.TYPES_KEY) + struct.pack("<IIQ", ARRAY, I32, 1 << 62), n_values=1), "longer than any model"),
    *(
        (header(struct.pack("<Q", length) + b"k" * 70_000, n_values=1), "a key is empty, or longer")
        for length in (65_536, 1 << 31, 1 << 62)
    ),
    # llama.cpp would read it as llama.block_count and abort on the number.
    (header(pair(b"llama.block_count\0x", 0), n_values=1), "zero byte"),
    (header(pair("a", 1) + pair("a", 2), n_values=2), "the key 'a' twice"),
    *(
        (header(text("k") + struct.pack(*packed), n_values=1), f"unknown type {kind}")
        for kind in (13, 99, 1 << 31, (1 << 32) - 1)
        for packed in (("<I", kind), ("<IIQ", ARRAY, kind, 0))
    ),
    (header(text("k") + struct.pack("<IIQ", ARRAY, ARRAY, 1), n_values=1), "unknown type 9"),
]


@pytest.mark.parametrize(("data", "said"), REFUSED, ids=[said for _, said in REFUSED])
def test_an_invalid_header_is_refused_with_its_reason(data: bytes, said: str) -> None:
    wrong(data, said)


@pytest.mark.parametrize("length", [1 << 31, 1 << 62, (1 << 64) - 1])
@pytest.mark.parametrize(
    "before",
    [
        text("k") + struct.pack("<I", STRING),
        text("k") + struct.pack("<IIQ", ARRAY, STRING, 1),
        text("k") + struct.pack("<II", ARRAY, F32),
        text("k") + struct.pack("<II", ARRAY, STRING),
        text(gguf.TOKENS_KEY) + struct.pack("<II", ARRAY, STRING),
        text(gguf.TOKENS_KEY) + struct.pack("<IIQ", ARRAY, STRING, 2) + text("longer than a length"),
    ],
)
def test_a_huge_length_ends_where_the_file_does(before: bytes, length: int) -> None:
    incomplete(header(before + struct.pack("<Q", length) + b"\0" * 4096, n_values=1))


def test_more_texts_than_any_model_has_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gguf, "_MAX_ELEMENTS", 5)
    parse_header(header({"a": Array(STRING, ["x"] * 5)}))
    wrong(header({"a": Array(STRING, ["x"] * 3), "b": Array(STRING, ["x"] * 3)}), "more texts")


def test_a_header_longer_than_any_is_refused_not_called_incomplete(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gguf, "MAX_HEADER_BYTES", 100)
    wrong(VALID, "longer than that of any model")


# Files


@pytest.mark.parametrize(
    ("data", "kind", "said"),
    [
        (b"", DamagedFileError, "is empty"),
        (b"GG", DamagedFileError, "is cut short"),
        (VALID[:60], DamagedFileError, "is cut short"),
        (VALID[:-1], DamagedFileError, "is cut short"),
        (b"\0" * 1000, DamagedFileError, "is damaged: it begins with zeros, perhaps after a power cut"),
        (header(text("k") + b"\xff" * 12, n_values=1), DamagedFileError, "is damaged: a value"),
        (b"hello, world\n" * 100, ModelFileError, "is not a GGUF model"),
        (VALID[:4] + struct.pack("<I", 9) + VALID[8:], ModelFileError, "is not a GGUF model"),
    ],
)
def test_damaged_files_are_reported_from_other_files(
    tmp_path: Path, data: bytes, kind: type[ModelFileError], said: str
) -> None:
    assert type(refused(write(tmp_path / "m.gguf", data), said)) is kind


@posix
@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: None, "There is no file"),
        (Path.mkdir, "is a folder"),
        (os.mkfifo, "is not a regular file"),
        (lambda path: path.symlink_to("/dev/null"), "is not a regular file"),
        (lambda path: path.symlink_to(path), "cannot be read"),
        (lambda path: path.symlink_to(path.with_name("gone")), "There is no file"),
    ],
    ids=["missing", "folder", "pipe", "device", "loop", "dangling"],
)
def test_what_is_no_file_is_reported(tmp_path: Path, make: Callable[[Path], object], said: str) -> None:
    make(tmp_path / "m.gguf")
    refused(tmp_path / "m.gguf", said)


@pytest.mark.parametrize("name", ["model\0.gguf", "x" * 5000])
def test_an_impossible_name_is_reported(tmp_path: Path, name: str) -> None:
    assert "\0" not in refused(tmp_path / name, "cannot be read").message


def test_a_split_model_that_lacks_a_part_names_it(tmp_path: Path) -> None:
    first, last = (tmp_path / f"m-0000{number}-of-00002.gguf" for number in (1, 2))
    write(first, header(tiny(split__count=Typed(U16, 2))))
    lacking = refused(first, r"m-00001-of-00002\.gguf is one of 2 parts, and m-00002-of-00002\.gguf is not beside it")
    assert isinstance(lacking, DamagedFileError), "of a draft that costs only the drafts"
    last.touch()
    assert read_header(first).architecture == "llama"


def test_a_sparse_file_of_a_terabyte_is_refused_at_once(tmp_path: Path) -> None:
    path = write(
        tmp_path / "m.gguf", header(text(gguf.TOKENS_KEY) + struct.pack("<IIQ", ARRAY, STRING, 1 << 36), n_values=1)
    )
    try:
        os.truncate(path, 1 << 40)
    except OSError:
        pytest.skip("this file system has no sparse files of that size")
    refused(path, "longer than that of any model")


def test_an_error_while_reading_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(mmap, "mmap", fail)
    refused(write(tmp_path / "m.gguf", VALID), "cannot be read: Input/output error")


def test_without_the_vocabulary_everything_else_is_the_same() -> None:
    whole, short = parse_header(VALID).metadata, parse_header(VALID, vocabulary=False).metadata

    dropped = {gguf.TOKENS_KEY: None, gguf.TYPES_KEY: [1, 1, 3]}
    assert short == {**whole, **dropped}
