"""Text files: encodings and errors."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.conversations.textfile import MissingFile, read_text, text_size
from app.core.errors import AppError


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("naïve\r\nend\r".encode(), "naïve\nend\n"),
        ("\ufeffx".encode(), "x"),
        ("héllo".encode("utf-16"), "héllo"),
        ("caf\xe9 \u20ac 2".encode("cp1252"), "café \u20ac 2"),
        (b"", ""),
        (b"\x1b[1mbold\x1b[0m", "\x1b[1mbold\x1b[0m"),
    ],
)
def test_text_is_read_in_common_encodings(tmp_path: Path, data: bytes, text: str) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(data)
    assert read_text(file, "a.txt") == text


def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\x7fELF\x00\x01")
    with pytest.raises(AppError, match=r"a is not text\."):
        read_text(tmp_path / "a", "a")


def test_a_missing_file_has_its_own_error(tmp_path: Path) -> None:
    for name in ("none.md", "a.md/below", "x" * 200):
        (tmp_path / "a.md").write_text("x")
        with pytest.raises(MissingFile, match="There is no file"):
            text_size(tmp_path / name, name)


@pytest.mark.parametrize("name", ["nul\0.md", "x" * 300])
def test_an_impossible_name_is_an_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(AppError):
        read_text(tmp_path / name, "it")


def test_a_directory_a_pipe_and_a_device_are_refused_without_waiting(tmp_path: Path) -> None:
    with pytest.raises(AppError, match="src is a folder"):
        read_text(tmp_path, "src")
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(AppError, match="a device or a pipe"):
            read_text(tmp_path / "pipe", "pipe")
        with pytest.raises(AppError, match="a device or a pipe"):
            read_text(Path("/dev/zero"), "/dev/zero")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser may read everything")
def test_no_permission_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "mine"
    file.touch(mode=0)
    with pytest.raises(AppError, match="mine cannot be read: Permission denied"):
        read_text(file, "mine")


def test_a_large_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "big").write_text("x" * 11)
    with pytest.raises(AppError, match="big is larger than"):
        read_text(tmp_path / "big", "big", most_bytes=10)
    assert len(read_text(tmp_path / "big", "big", most_bytes=11)) == 11


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    file = tmp_path_factory.getbasetemp() / "any"
    file.write_bytes(data)
    with suppress(AppError):
        assert "\r" not in read_text(file, "any")
