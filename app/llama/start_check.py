"""Start a newly installed llama.cpp in a child process first, because a wrong build can crash or hang its process.

A build for CUDA may use instructions that this CPU does not have, and a broken driver may never return. Installed files
that survived once are remembered, so later starts are not slower. The error for one that cannot be loaded has the
command that installs another.

CUDA's runtime and cuBLAS come from NVIDIA's Python packages, where llama.cpp does not look; the extras `cuda` and
`cuda13` install them. Builds of llama-cpp-python for CUDA expect the toolkit in the system.
"""

from __future__ import annotations

import ctypes
import importlib.util
import logging
import os
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from app.core import atomic
from app.core.paths import cache_dir
from app.llama.installed import files_identity, gpu_backends

if TYPE_CHECKING:
    from app.core.program import ExitStatus
    from app.hardware.builds import LibraryError, LoadFailure


log = logging.getLogger("tandem.child")

FORMAT = 1
STARTED = "TANDEM_LLAMA_STARTED"
"""Variable with the identity of the files that this process or its parent tested."""
_DEADLINE_S = 90.0
"""A cold disk needs seconds for a library of 1 GB, and several GPUs for their drivers."""
_MAX_REMEMBERED = 20
_MISSING_LIBRARY = re.compile(r"(lib(?:cudart|cublasLt|cublas)\.so\.\d+)(?:[.\d]*): cannot open")
_COMPILER_FILES = "libnvrtc.so.*"
"""cuBLAS opens it by name when a kernel is compiled."""
_WINDOWS_FILES = ("cudart64_*.dll", "nvrtc64_*_0.dll", "cublasLt64_*.dll", "cublas64_*.dll")
"""Libraries in the order in which they depend on each other."""
_LIBRARY_SUBFOLDERS = ("*/lib", "*/bin", "*/bin/x86_64")
_tried: set[tuple[str, ...]] = set()


def check_start(cancelled: Callable[[], bool] = lambda: False) -> None:
    """Start the installed llama.cpp in a child process, unless these files survived it before.

    Raises:
        LibraryError: It cannot be loaded, crashes or hangs.
        Interrupted: `cancelled` returned True.
    """
    identity = files_identity()
    if os.environ.get(STARTED) == identity:
        return
    # Child processes inherit it, the one below too.
    os.environ[STARTED] = identity
    file = cache_dir() / "llama-starts.json"
    known: list[str] = atomic.read_json(file, FORMAT, lambda raw: [str(one) for one in raw["files"]]) or []
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
        file.parent.mkdir(parents=True, exist_ok=True)
        atomic.write_json(file, {"format": FORMAT, "files": [*known, identity][-_MAX_REMEMBERED:]})
    except OSError as error:
        log.warning("that llama.cpp starts cannot be remembered: %s", error)


def _survives(cancelled: Callable[[], bool]) -> bool:
    """Return whether the child started llama.cpp; False if it proved nothing, as when the system killed it."""
    # Later starts do not need it.
    from app.core.child import ChildError, ask

    try:
        ask("llama.throughput.try_cpu", seconds=_DEADLINE_S, cancelled=cancelled)
    except ChildError as error:
        if error.crashed:
            raise child_failure(error.status, _DEADLINE_S) from error
        log.warning("a trial start %s", error)
        return False
    return True


def import_failure(reason: str) -> LibraryError:
    """Explain the error of the import, or another reason not to use this build."""
    from app.hardware.builds import loader_failure

    return _with_fix(loader_failure(reason, gpu_backends()))


def child_failure(status: ExitStatus | None, seconds: float) -> LibraryError:
    """Explain the end of a child process that started llama.cpp; None if it did not end within its time."""
    from app.hardware.builds import crash_failure, hang_failure

    backends = gpu_backends()
    return _with_fix(hang_failure(seconds, backends) if status is None else crash_failure(status, backends))


def _with_fix(failure: LoadFailure) -> LibraryError:
    # A slow look at the machine, for an error alone.
    from app.hardware.builds import LibraryError, repair_hint
    from app.hardware.installation import installation
    from app.hardware.machine import detect

    machine = detect()
    return LibraryError(failure, repair_hint(machine, installation(machine.system), failure))


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
