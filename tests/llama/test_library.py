"""A llama.cpp that cannot be loaded, or lies in other files: what is said, and what is found still."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from app.llama import library
from app.llama.installed import installed_libraries, load_hint

WINDOWS = (
    "Failed to load shared library 'C:\\venv\\llama_cpp\\lib\\llama.dll': Could not find module "
    "'C:\\venv\\llama_cpp\\lib\\llama.dll' (or one of its dependencies)."
)
LINUX = "Failed to load shared library '/venv/llama_cpp/lib/libllama.so': {}: cannot open shared object file"


@pytest.mark.parametrize(
    ("reason", "libraries", "hint"),
    [
        (LINUX.format("libvulkan.so.1"), [], "apt install libvulkan1"),
        (LINUX.format("libcuda.so.1"), [], "install NVIDIA's driver"),
        (LINUX.format("libcudart.so.12"), [], "install the CUDA toolkit"),
        (LINUX.format("libcublas.so.13"), ["libggml-cuda.so"], "install the CUDA toolkit"),
        (LINUX.format("libamdhip64.so.7"), [], "install the ROCm"),
        (LINUX.format("libgomp.so.1"), ["libggml-cuda.so"], "Reinstall it"),
        (WINDOWS, ["llama.dll", "ggml-cuda.dll"], "install the CUDA toolkit"),
        (WINDOWS, ["llama.dll", "ggml-hip.dll"], "install the ROCm"),
        (WINDOWS, ["llama.dll", "ggml-vulkan.dll"], "part of the GPU driver"),
        (WINDOWS, ["llama.dll", "ggml-cpu.dll"], "Visual C++ Redistributable"),
        ("(mach-o file, but is an incompatible architecture (have 'arm64', need 'x86_64'))", [], "another processor"),
        ("No module named 'llama_cpp'", [], "Reinstall it"),
    ],
)
def test_the_way_out_is_that_of_the_build(reason: str, libraries: list[str], hint: str) -> None:
    assert hint in load_hint(reason, libraries)


def test_a_variable_that_names_another_folder_is_told_first() -> None:
    said = load_hint("Shared library with base name 'llama' not found", ["libggml-cuda.so"], "/no/such/folder")

    assert said == "It was looked for in /no/such/folder, which LLAMA_CPP_LIB_PATH names: unset that, or correct it."


def test_the_libraries_of_the_package_are_found() -> None:
    assert any("llama" in name for name in installed_libraries())


# On Windows nothing is found through a library that is linked with another


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
def test_functions_are_found_in_the_libraries_beside(windows: Callable[..., list[str]], mark: str) -> None:
    opened = windows(f"{mark}llama.dll", f"{mark}ggml.dll", f"{mark}ggml-base.dll", f"{mark}ggml-cpu.dll")

    assert library.function("strlen", ctypes.c_size_t, [ctypes.c_char_p])(b"four") == 4
    assert opened == [f"{mark}ggml.dll", f"{mark}ggml-base.dll"]


def test_one_library_alone_is_no_failure_of_its_own(windows: Callable[..., list[str]]) -> None:
    assert windows("llama.dll") == []

    with pytest.raises(AttributeError, match="strlen"):
        library.function("strlen", ctypes.c_size_t, [ctypes.c_char_p])
    library.on_abort(lambda _: pytest.fail("nothing ended"))
