"""Load CUDA's runtime and cuBLAS from NVIDIA's Python packages, where llama.cpp does not look.

The extras `cuda` and `cuda13` install them. Builds of llama-cpp-python for CUDA expect the toolkit in the system.
"""

from __future__ import annotations

import ctypes
import importlib.util
import re
import sys
from contextlib import suppress
from pathlib import Path

_MISSING_LIBRARY = re.compile(r"(lib(?:cudart|cublasLt|cublas)\.so\.\d+)(?:[.\d]*): cannot open")
_COMPILER_FILES = "libnvrtc.so.*"
"""cuBLAS opens it by name when a kernel is compiled."""
_WINDOWS_FILES = ("cudart64_*.dll", "nvrtc64_*_0.dll", "cublasLt64_*.dll", "cublas64_*.dll")
"""Libraries in the order in which they depend on each other."""
_LIBRARY_SUBFOLDERS = ("*/lib", "*/bin", "*/bin/x86_64")
_tried: set[tuple[str, ...]] = set()


def load_missing(error: str) -> bool:
    """Load the libraries that an import of llama.cpp did not find; return whether another attempt can succeed.

    A library that is loaded already is found by its name, wherever its file is.
    """
    if sys.platform == "win32":
        # Its loader does not say which one is missing.
        return "Could not find module" in error and _load(_WINDOWS_FILES)
    found = _MISSING_LIBRARY.search(error)
    return found is not None and _load((found[1], _COMPILER_FILES))


def _load(names: tuple[str, ...]) -> bool:
    if names in _tried:
        return False
    _tried.add(names)
    n_loaded = 0
    for file in [file for name in names for folder in _folders() for file in sorted(folder.glob(name))]:
        # The error of llama.cpp's own import says what is missing.
        with suppress(OSError):
            ctypes.CDLL(str(file), mode=ctypes.RTLD_GLOBAL)
            n_loaded += 1
    return n_loaded > 0


def _folders() -> list[Path]:
    """Return the folders with libraries in the namespace package `nvidia`, such as cuda_runtime/lib and cu13/lib."""
    spec = importlib.util.find_spec("nvidia")
    places = [Path(place) for place in (spec.submodule_search_locations or ())] if spec is not None else []
    return [folder for place in places for pattern in _LIBRARY_SUBFOLDERS for folder in place.glob(pattern)]
