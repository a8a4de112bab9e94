"""The files of the installed llama.cpp, without loading it."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
from functools import cache
from pathlib import Path

_OF_PROCESSORS = re.compile(r"(?:lib)?(?:ggml(?:-base|-cpu[\w.-]*?)?|llama|mtmd)(?:[.\d]*)(?:\.so|\.dylib|\.dll)[\d.]*")
"""Libraries of a build that computes on processors; every other backend is a library of its own beside them."""
_PROCESSOR = re.compile(r"(?:lib)?ggml-cpu")
_ELSEWHERE = ("LLAMA_CPP_LIB_PATH", "GGML_BACKEND_PATH")
"""Variables that have other libraries loaded: a folder of them, and a file."""


def installed_libraries() -> tuple[str, ...]:
    """The names of the package's own libraries; () where it is not there."""
    return tuple(file.name for file in _files())


def computes_on_processors_only() -> bool:
    """Whether no driver of a card needs to be asked what there is, because nothing installed could use one.

    Where that cannot be told by the names of the libraries it is not so.
    """
    names = installed_libraries()
    apart = any(map(_PROCESSOR.match, names))
    return apart and all(map(_OF_PROCESSORS.fullmatch, names)) and not any(map(os.environ.get, _ELSEWHERE))


def build_identity() -> str:
    """A name for the installed build, which is another one after every installation."""
    return _identity([_state(file) for file in sorted([*_files(), *_files_elsewhere()])])


@cache
def build_kind() -> str:
    """A name for the installed build, the same where it is installed again: what was measured with it still holds.

    A process keeps to the one that it found: what is installed under it is not what it measures.
    """
    return _identity([f"{file.name} {_size(file)}" for file in sorted([*_files(), *_files_elsewhere()])])


def _identity(lines: list[str]) -> str:
    elsewhere = [os.environ.get(name, "") for name in _ELSEWHERE]
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
    places = [Path(place) for name in _ELSEWHERE if (place := os.environ.get(name))]
    try:
        return [file for place in places for file in (place.iterdir() if place.is_dir() else [place])]
    except OSError:
        return []
