"""Functions of llama.cpp on Windows, where nothing is found through a library that is linked with another."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from app.llama import library


class Bare:
    """A library that has none of the functions."""

    def __init__(self, file: Path) -> None:
        self._name = str(file)

    def __getitem__(self, name: str) -> Any:
        raise AttributeError(name)


@pytest.fixture
def windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., list[str]]]:
    """A function that gives this process libraries by name; its list is of those opened besides the first."""
    process, opened = ctypes.CDLL(None), list[str]()

    def open_library(path: str) -> ctypes.CDLL:
        opened.append(Path(path).name)
        return process

    def give(first: str, *others: str) -> list[str]:
        for name in (first, *others):
            (tmp_path / name).touch()
        monkeypatch.setattr(library, "native", SimpleNamespace(_lib=Bare(tmp_path / first)))
        library._handles.cache_clear()
        return opened

    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(ctypes, "CDLL", open_library)
    yield give
    library._handles.cache_clear()


@pytest.mark.parametrize("mark", ["", "lib"])
def test_functions_are_found_in_the_ggml_libraries(windows: Callable[..., list[str]], mark: str) -> None:
    opened = windows(f"{mark}llama.dll", f"{mark}ggml.dll", f"{mark}ggml-base.dll", f"{mark}ggml-cpu.dll")

    assert library.function("strlen", ctypes.c_size_t, [ctypes.c_char_p])(b"four") == 4
    assert opened == [f"{mark}ggml.dll", f"{mark}ggml-base.dll"]


def test_a_single_library_is_enough(windows: Callable[..., list[str]]) -> None:
    assert windows("llama.dll") == []

    with pytest.raises(AttributeError, match="strlen"):
        library.function("strlen", ctypes.c_size_t, [ctypes.c_char_p])
