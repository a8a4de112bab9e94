"""The files of the installed llama.cpp, without loading it."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import re
from functools import cache
from pathlib import Path

from app.hardware.installation import LIBRARY_VARIABLE

_CPU_BUILD = re.compile(r"(?:lib)?(?:ggml(?:-base|-cpu[\w.-]*?)?|llama|mtmd)(?:[.\d]*)(?:\.so|\.dylib|\.dll)[\d.]*")
"""Libraries of a CPU-only build; every other backend adds a library."""
_CPU_BACKEND_FILE = re.compile(r"(?:lib)?ggml-cpu")
_GPU_LIBRARY = re.compile(r"(?:lib)?ggml-(cuda|hip|metal|vulkan)\b")
_LIBRARY_VARIABLES = (LIBRARY_VARIABLE, "GGML_BACKEND_PATH")
"""Variables that name other libraries: a folder, and a file."""


def is_cpu_only_build() -> bool:
    """Return whether the installed build can use only the CPU, judging by its files.

    False if the names of the libraries do not show it.
    """
    if any(map(os.environ.get, _LIBRARY_VARIABLES)):
        return False
    names = [file.name for file in _files()]
    return any(map(_CPU_BACKEND_FILE.match, names)) and all(map(_CPU_BUILD.fullmatch, names))


def gpu_backends() -> tuple[str, ...]:
    """Return the GPU backends of the build by its files, named as in builds.toml, or ("cpu",)."""
    found = {match[1].replace("hip", "rocm") for file in _files() if (match := _GPU_LIBRARY.match(file.name))}
    return tuple(sorted(found)) or ("cpu",)


def files_identity() -> str:
    """Return an identity of the installed files on this computer, which changes when they are rewritten."""
    states = [f"{file} {status.st_size} {status.st_mtime_ns}" for file in sorted(_files()) for status in _status(file)]
    return _hash([*states, *_variables(), platform.node()])


@cache
def build_identity() -> str:
    """Return an identity of the build that stays when the same build is installed again.

    A process keeps the first value: it does not measure a build installed later.
    """
    parts = [f"{file.name} {next((s.st_size for s in _status(file)), -1)}" for file in sorted(_files())]
    return _hash([*parts, *_variables()])


def _hash(parts: list[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode(errors="replace")).hexdigest()[:32]


def _variables() -> list[str]:
    return [os.environ.get(name, "") for name in _LIBRARY_VARIABLES]


def _status(file: Path) -> list[os.stat_result]:
    try:
        return [file.stat()]
    except OSError:
        return []


def _files() -> list[Path]:
    if own := os.environ.get(LIBRARY_VARIABLE):
        folders = [Path(own)]
    else:
        spec = importlib.util.find_spec("llama_cpp")
        folders = [Path(place) / "lib" for place in (spec.submodule_search_locations or [])] if spec is not None else []
    try:
        return [file for folder in folders for file in folder.iterdir()]
    except OSError:
        return []
