"""CUDA's libraries from NVIDIA's Python packages are loaded before llama.cpp, with stubs in their places."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from app.core.program import python_environment
from app.llama import cuda_libraries
from app.llama.installed import files_identity
from app.llama.start_check import STARTED
from tests.llama.stub_libraries import HARMLESS, compile_library, needs_compiler

IMPORT = """
from app.core.errors import AppError
try:
    import app.llama.library
except AppError as error:
    print(error.message)
"""


class Machine:
    """A build of llama.cpp that needs libraries, and a site-packages with some of them."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.packages, self._build, self._patch = folder / "site", folder / "build", monkeypatch
        monkeypatch.setenv("PYTHONPATH", str(self.packages))
        monkeypatch.setenv("LLAMA_CPP_LIB_PATH", str(self._build))

    def compile(self, *needed: str) -> None:
        """Compile a build that needs libraries, given as folder/file; all of them are in the site-packages then."""
        files = [compile_library(self.packages / "nvidia" / name, HARMLESS) for name in needed]
        compile_library(self._build / "libllama.so", HARMLESS, *files)
        self._patch.setenv(STARTED, files_identity())

    def import_error(self) -> str:
        command = [sys.executable, "-P", "-c", IMPORT]
        done = subprocess.run(command, env=python_environment(), capture_output=True, text=True, timeout=60, check=True)
        return done.stdout.strip()


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
    monkeypatch.setattr(cuda_libraries, "_folders", lambda: folders)
    monkeypatch.setattr(cuda_libraries, "_tried", set())
    monkeypatch.setattr("ctypes.CDLL", lambda path, mode: loaded.append(Path(path).name))
    error = r"Could not find module 'C:\\v\\llama.dll' (or one of its dependencies)."

    assert cuda_libraries.load_missing(error)
    assert loaded == ["cudart64_12.dll", "cudart64_13.dll", "cublasLt64_12.dll", "cublas64_12.dll"]
    assert not cuda_libraries.load_missing(error), "a second attempt would fail likewise"
