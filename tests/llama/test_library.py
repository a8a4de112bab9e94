"""Functions of llama.cpp on Windows, where nothing is found through a library that is linked with another."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from app.hardware.load_failure import LibraryError
from app.llama import library
from tests.llama.stub_libraries import compile_library, needs_compiler


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


_BACKENDS_APART = """
static int loaded;
int ggml_backend_reg_count(void) { return loaded; }
void ggml_backend_load_all_from_path(const char * folder) {
    char name[4096];
    snprintf(name, sizeof name, "%s/libggml-cpu.so", folder);
    loaded = access(name, F_OK) == 0;
}
"""
"""A build whose backends are files of their own: it has none until it is told where they are."""


@needs_compiler
@pytest.mark.parametrize("is_there", [True, False])
def test_backends_are_loaded_from_the_folder_of_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    code = f"#include <stdio.h>\n#include <unistd.h>\n{_BACKENDS_APART}"
    handle = ctypes.CDLL(str(compile_library(tmp_path / "libllama.so", code)))
    monkeypatch.setattr(
        library,
        "native",
        SimpleNamespace(_lib=handle, llama_log_set=lambda *_: None, llama_backend_init=lambda: None),
    )
    library._handles.cache_clear()
    if is_there:
        (tmp_path / "libggml-cpu.so").touch()
    try:
        if is_there:
            library.start.__wrapped__()
        else:
            with pytest.raises(LibraryError, match=f"it has no backend, such as the library ggml-cpu, in {tmp_path}"):
                library.start.__wrapped__()
    finally:
        library._handles.cache_clear()
