"""The files of the installed llama.cpp, without loading it."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
from collections.abc import Collection
from functools import cache
from pathlib import Path

_OF_PROCESSORS = re.compile(r"(?:lib)?(?:ggml(?:-base|-cpu[\w.-]*?)?|llama|mtmd)(?:[.\d]*)(?:\.so|\.dylib|\.dll)[\d.]*")
"""Libraries of a build that computes on processors; every other backend is a library of its own beside them."""
_PROCESSOR = re.compile(r"(?:lib)?ggml-cpu")
_LIBRARY_VARIABLES = ("LLAMA_CPP_LIB_PATH", "GGML_BACKEND_PATH")
"""Variables that have other libraries loaded: a folder of them, and a file."""


def installed_libraries() -> tuple[str, ...]:
    """The names of the package's own libraries; () where it is not there."""
    return tuple(file.name for file in _files())


def computes_on_processors_only() -> bool:
    """Return whether the installed build can use the CPU only, judged by its files.

    False where the names of the libraries do not say.
    """
    names = installed_libraries()
    apart = any(map(_PROCESSOR.match, names))
    return apart and all(map(_OF_PROCESSORS.fullmatch, names)) and not any(map(os.environ.get, _LIBRARY_VARIABLES))


def build_identity() -> str:
    """Return an identity of the build that changes with every installation."""
    return _identity([_state(file) for file in sorted([*_files(), *_files_elsewhere()])])


@cache
def build_kind() -> str:
    """Return an identity of the build that stays when it is installed again.

    A process keeps to the one that it found: what is installed under it is not what it measures.
    """
    return _identity([f"{file.name} {_size(file)}" for file in sorted([*_files(), *_files_elsewhere()])])


def _identity(lines: list[str]) -> str:
    elsewhere = [os.environ.get(name, "") for name in _LIBRARY_VARIABLES]
    return hashlib.sha256("\n".join([*lines, *elsewhere]).encode(errors="replace")).hexdigest()[:32]


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return -1


def _state(file: Path) -> str:
    try:
        state = file.stat()
    except OSError:
        # A link that leads nowhere, or a file that an installer is just replacing.
        return file.name
    return f"{file.name} {state.st_size} {state.st_mtime_ns}"


def _files() -> list[Path]:
    spec = importlib.util.find_spec("llama_cpp")
    folders = [Path(place) / "lib" for place in (spec.submodule_search_locations or [])] if spec is not None else []
    try:
        return [file for folder in folders for file in folder.iterdir()]
    except OSError:
        return []


def _files_elsewhere() -> list[Path]:
    places = [Path(place) for name in _LIBRARY_VARIABLES if (place := os.environ.get(name))]
    try:
        return [file for place in places for file in (place.iterdir() if place.is_dir() else [place])]
    except OSError:
        return []


_REINSTALL = "Reinstall it: pip install --force-reinstall --no-cache-dir llama-cpp-python==0.3.36"
_RUNTIME = (
    "Install Microsoft's Visual C++ Redistributable, whose libraries it loads. If it is there, reinstall llama.cpp: "
    "pip install --force-reinstall --no-cache-dir llama-cpp-python==0.3.36"
)
_OTHER_BUILD = "or take another build: tandem doctor"
_BUILDS = (
    # A build loads what it computes with wherever it computes.
    (("libvulkan",), "Install the Vulkan loader; on Debian and Ubuntu: apt install libvulkan1"),
    (
        ("ggml-vulkan.dll",),
        f"It is built for Vulkan, a part of the GPU driver: update the driver, {_OTHER_BUILD}",
    ),
    (("libcuda.so",), f"It is built for NVIDIA's cards: install NVIDIA's driver, {_OTHER_BUILD}"),
    (
        ("libcudart", "libcublas", "ggml-cuda.dll"),
        f"It is built for CUDA: install the CUDA toolkit that it asks for, {_OTHER_BUILD}",
    ),
    (
        ("libamdhip64", "libhipblas", "librocblas", "ggml-hip.dll"),
        f"It is built for ROCm: install the ROCm that it asks for, {_OTHER_BUILD}",
    ),
    (
        ("incompatible architecture",),
        "This Python is made for another processor than llama.cpp: install one for this machine, and Tandem into it.",
    ),
)


def load_hint(reason: str, libraries: Collection[str], library_path: str = "") -> str:
    """Return what to do about a llama.cpp that cannot be loaded.

    Args:
        reason: In the words of the system. Windows does not name the library that it misses.
        libraries: Those that came with the package; a build has one for what it computes with.
        library_path: The folder that LLAMA_CPP_LIB_PATH names; "" if it is not set.
    """
    if library_path:
        return f"It was looked for in {library_path}, which LLAMA_CPP_LIB_PATH names: unset that, or correct it."
    is_windows = ".dll" in reason.lower()
    said = " ".join((reason, *libraries)) if is_windows else reason
    found = next((hint for signs, hint in _BUILDS if any(sign in said for sign in signs)), "")
    return found or (_RUNTIME if is_windows else _REINSTALL)
