"""The installed llama.cpp: what its files show without loading it, and its first start, in a child process.

A wrong build can crash or hang its process: a CUDA build may use instructions that this CPU lacks, and a broken driver
may never return. Files that survived once are remembered, so later starts are not slower. The error for a broken build
has the command that installs another.
"""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import os
import platform
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from app.core import atomic
from app.core.paths import cache_dir
from app.hardware.installation import LIBRARY_VARIABLE

if TYPE_CHECKING:
    from app.hardware.builds import LibraryError, LoadFailure

log = logging.getLogger("tandem.child")

_CPU_BUILD = re.compile(r"(?:lib)?(?:ggml(?:-base|-cpu[\w.-]*?)?|llama|mtmd)(?:[.\d]*)(?:\.so|\.dylib|\.dll)[\d.]*")
"""Libraries of a CPU-only build; every other backend adds a library."""
_CPU_BACKEND_FILE = re.compile(r"(?:lib)?ggml-cpu")
_GPU_LIBRARY = re.compile(r"(?:lib)?ggml-(cuda|hip|metal|vulkan)\b")
_LIBRARY_VARIABLES = (LIBRARY_VARIABLE, "GGML_BACKEND_PATH")
"""Variables that name other libraries: a folder, and a file."""
STARTED = "TANDEM_LLAMA_STARTED"
"""Environment variable with the identity of the files that this process or its parent tested."""
_FORMAT = 1
_DEADLINE_S = 90.0
"""Time limit of a first start: a cold disk needs seconds for a library of 1 GB, and several GPUs for their drivers."""
_MAX_REMEMBERED = 20


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


def check_start(cancelled: Callable[[], bool] = lambda: False) -> None:
    """Start the installed llama.cpp in a child process, unless these files already survived.

    Raises:
        LibraryError: It cannot be loaded, crashes or hangs.
        Interrupted: `cancelled` returned True.
    """
    identity = files_identity()
    if os.environ.get(STARTED) == identity:
        return
    # Child processes inherit it, including the child below.
    os.environ[STARTED] = identity
    file = cache_dir() / "llama-starts.json"
    known: list[str] = atomic.read_json(file, _FORMAT, lambda raw: [str(one) for one in raw["files"]]) or []
    if identity in known:
        return
    try:
        survived = _survives(cancelled)
    except BaseException:
        del os.environ[STARTED]
        raise
    if not survived:
        return
    try:
        atomic.write_json(file, {"format": _FORMAT, "files": [*known, identity][-_MAX_REMEMBERED:]})
    except OSError as error:
        log.warning("that llama.cpp starts cannot be remembered: %s", error)


def _survives(cancelled: Callable[[], bool]) -> bool:
    """Return whether the child started llama.cpp; False if the result is unclear, as when the system killed it."""
    # Later starts do not need these imports.
    from app.core.child import ChildError, ask

    try:
        ask("llama.throughput.try_cpu", seconds=_DEADLINE_S, cancelled=cancelled)
    except ChildError as error:
        if error.crashed:
            from app.hardware.builds import start_failure

            raise _with_fix(start_failure(error.status, _DEADLINE_S, gpu_backends())) from error
        log.warning("a trial start %s", error)
        return False
    return True


def import_failure(reason: str) -> LibraryError:
    """Explain an import error, or another reason not to use this build."""
    from app.hardware.builds import loader_failure

    return _with_fix(loader_failure(reason, gpu_backends()))


def _with_fix(failure: LoadFailure) -> LibraryError:
    # Detecting the machine is slow, so only errors do it.
    from app.hardware.builds import LibraryError, repair_hint
    from app.hardware.installation import installation
    from app.hardware.machine import detect

    machine = detect()
    return LibraryError(failure, repair_hint(machine, installation(machine.system), failure))
