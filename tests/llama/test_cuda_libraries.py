"""Libraries are found in their folders and in CUDA's packages."""

import ctypes
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from app.hardware.builds import LibraryError
from app.llama import library
from app.llama.installed import STARTED, files_identity
from tests.llama.stub_libraries import HARMLESS, compile_library, needs_compiler
from tests.tandem import run_python

IMPORT = """
from app.core.errors import AppError
try:
    import app.llama.library
except AppError as error:
    print(error.message)
"""


class Machine:
    """A build of llama.cpp with dependencies, and a site-packages with some of them."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.packages, self._build, self._patch = folder / "site", folder / "build", monkeypatch
        monkeypatch.setenv("PYTHONPATH", str(self.packages))
        monkeypatch.setenv("LLAMA_CPP_LIB_PATH", str(self._build))

    def compile(self, *needed: str) -> None:
        """Compile a build that needs libraries, given as folder/file; then site-packages has all of them."""
        files = [compile_library(self.packages / "nvidia" / name, HARMLESS) for name in needed]
        compile_library(self._build / "libllama.so", HARMLESS, *files)
        self._patch.setenv(STARTED, files_identity())

    def import_error(self) -> str:
        return run_python("-c", IMPORT).out.strip()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


@needs_compiler
@pytest.mark.parametrize(
    "files",
    [
        ("cuda_runtime/lib/libcudart.so.12", "cublas/lib/libcublas.so.12"),
        ("cuda_runtime/lib/libcudart.so.12", "cuda_nvrtc/lib/libnvrtc.so.12"),
        ("cu13/lib/libcudart.so.13", "cu13/lib/libcublas.so.13"),
    ],
)
def test_libraries_are_found_in_the_packages(machine: Machine, files: tuple[str, ...]) -> None:
    machine.compile(*files)

    # The stub is loaded and lacks only the functions.
    assert "undefined symbol: llama" in machine.import_error()


@needs_compiler
def test_an_incomplete_extra_names_the_library_that_is_missing(machine: Machine) -> None:
    machine.compile("cuda_runtime/lib/libcudart.so.12", "cublas/lib/libcublas.so.12")
    (machine.packages / "nvidia/cublas/lib/libcublas.so.12").unlink()

    assert "libcublas.so.12 is missing, which belongs to the CUDA 12 toolkit" in machine.import_error()


@needs_compiler
def test_a_missing_driver_is_named_after_the_libraries_were_found(machine: Machine) -> None:
    machine.compile("cuda_runtime/lib/libcudart.so.12", "driver/elsewhere/libcuda.so.1")

    assert "libcuda.so.1 is missing, which belongs to NVIDIA's driver" in machine.import_error()


@needs_compiler
def test_a_damaged_library_of_the_packages_is_named(machine: Machine) -> None:
    machine.compile("cuda_runtime/lib/libcudart.so.12")
    (machine.packages / "nvidia/cuda_runtime/lib/libcudart.so.12").write_bytes(b"")

    assert "libcudart.so.12 is missing" in machine.import_error()


def test_windows_loads_all_libraries_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []
    files = ("cuda_runtime/bin/cudart64_12.dll", "cublas/bin/cublas64_12.dll", "cublas/bin/cublasLt64_12.dll")
    for file in (*files, "cu13/bin/x86_64/cudart64_13.dll"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    folders = [folder for inside in ("*/bin", "*/bin/x86_64") for folder in sorted(tmp_path.glob(inside))]
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(library, "_folders", lambda: folders)
    monkeypatch.setattr(library, "_tried", set())
    monkeypatch.setattr("ctypes.CDLL", lambda path, mode: loaded.append(Path(path).name))
    error = r"Could not find module 'C:\\v\\llama.dll' (or one of its dependencies)."

    assert library._load_missing(error)
    assert loaded == ["cudart64_12.dll", "cudart64_13.dll", "cublasLt64_12.dll", "cublas64_12.dll"]
    assert not library._load_missing(error), "a second attempt would fail likewise"


class Bare:
    """A library that has none of the functions."""

    def __init__(self, file: Path) -> None:
        self._name = str(file)

    def __getitem__(self, name: str) -> Any:
        raise AttributeError(name)


@pytest.fixture
def windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., list[str]]]:
    """Return a function that defines libraries of this process by name and lists those opened later."""
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
"""A build with separate backend files: it has none until it is told where they are."""


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
