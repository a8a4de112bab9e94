"""The files of the installed llama.cpp, without loading it."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
from functools import cache
from pathlib import Path

_CPU_BUILD = re.compile(r"(?:lib)?(?:ggml(?:-base|-cpu[\w.-]*?)?|llama|mtmd)(?:[.\d]*)(?:\.so|\.dylib|\.dll)[\d.]*")
"""Libraries of a CPU-only build; every other backend has a library beside them."""
_CPU = re.compile(r"(?:lib)?ggml-cpu")
_LIBRARY_VARIABLES = ("LLAMA_CPP_LIB_PATH", "GGML_BACKEND_PATH")
"""Variables that name other libraries: a folder, and a file."""


def is_cpu_only_build() -> bool:
    """Return whether the installed build can use the CPU only, judged by its files.

    False if the names of the libraries do not tell.
    """
    if any(map(os.environ.get, _LIBRARY_VARIABLES)):
        return False
    names = [file.name for file in _files()]
    return any(map(_CPU.match, names)) and all(map(_CPU_BUILD.fullmatch, names))


@cache
def build_identity() -> str:
    """Return an identity of the build that stays when the same build is installed again.

    A process keeps the first one: what is installed meanwhile is not what it measures.
    """
    parts = [f"{file.name} {_size(file)}" for file in sorted(_files())]
    parts += [os.environ.get(name, "") for name in _LIBRARY_VARIABLES]
    return hashlib.sha256("\n".join(parts).encode(errors="replace")).hexdigest()[:32]


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return -1


def _files() -> list[Path]:
    spec = importlib.util.find_spec("llama_cpp")
    folders = [Path(place) / "lib" for place in (spec.submodule_search_locations or [])] if spec is not None else []
    try:
        return [file for folder in folders for file in folder.iterdir()]
    except OSError:
        return []
