"""Load llama.cpp, capture its log and start its backends.

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
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, cast

from app.llama.installed import check_start, import_failure

_MISSING_LIBRARY = re.compile(r"(lib(?:cudart|cublasLt|cublas)\.so\.\d+)(?:[.\d]*): cannot open")
_COMPILER_FILES = "libnvrtc.so.*"
"""cuBLAS opens it by name when it compiles a kernel."""
_WINDOWS_FILES = ("cudart64_*.dll", "nvrtc64_*_0.dll", "cublasLt64_*.dll", "cublas64_*.dll")
"""Libraries in the order of their dependencies."""
_LIBRARY_SUBFOLDERS = ("*/lib", "*/bin", "*/bin/x86_64")
_tried: set[tuple[str, ...]] = set()


def _load_missing(error: str) -> bool:
    """Load the libraries that importing llama.cpp did not find; return whether another attempt can succeed.

    A loaded library is found by its name, wherever its file is.
    """
    if sys.platform == "win32":
        # The Windows loader does not say which library is missing.
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


# Otherwise gdb attaches to the dying process and holds it for seconds.
os.environ.setdefault("GGML_NO_BACKTRACE", "1")

check_start()
while True:
    try:
        import llama_cpp.llama_cpp as native
        from llama_cpp import __version__ as binding_version
    except (ImportError, OSError, RuntimeError, AttributeError) as error:
        if not _load_missing(str(error)):
            raise import_failure(str(error)) from error
    else:
        break

__all__ = ["binding_version", "native"]  # re-exported for other modules

log = logging.getLogger("tandem.llama")
log.addHandler(logging.NullHandler())

# ggml.h's levels; the numbers in the binding's own comments are from another version.
_WARNING_LEVEL, _ERROR_LEVEL, _CONTINUED_LEVEL = 3, 4, 5
_errors: deque[str] = deque(maxlen=32)
_previous_level = 0


def _on_log(level: int, text: bytes, _: ctypes.c_void_p) -> None:
    """Keep error lines for messages, and pass warnings and errors to `logging`."""
    global _previous_level
    level = _previous_level if level == _CONTINUED_LEVEL else level
    _previous_level = level
    if level < _WARNING_LEVEL:
        return
    try:
        line = text.decode("utf-8", errors="replace").strip()
        if level == _ERROR_LEVEL and line:
            _errors.append(line)
        log.log(logging.ERROR if level == _ERROR_LEVEL else logging.WARNING, "%s", line)
    except Exception:
        return  # an exception cannot leave a C callback


# Held for the life of the process: llama.cpp keeps the bare pointer.
log_callback = native.llama_log_callback(_on_log)


@contextmanager
def captured_log(install: Callable[..., None] = native.llama_log_set) -> Iterator[Callable[[], str]]:
    """Yield a function that returns the log of all levels since then; `install` sets a library's callback."""
    lines: list[bytes] = []
    callback = native.llama_log_callback(lambda level, text, _: lines.append(text))
    start()
    install(callback, ctypes.c_void_p(0))
    try:
        yield lambda: b"".join(lines).decode("utf-8", errors="replace")
    finally:
        install(log_callback, ctypes.c_void_p(0))


OFFLOAD_VARIABLE = "GGML_OP_OFFLOAD_MIN_BATCH"


def use_offload(min_batch: int | None) -> int | None:
    """Set the op offload threshold before the backends start; None leaves it unchanged.

    Each backend reads the variable once, when it lists its devices.

    Returns:
        The threshold in use; None for llama.cpp's default.
    """
    if min_batch is not None and not start.cache_info().currsize:
        os.environ[OFFLOAD_VARIABLE] = str(min_batch)
    text = os.environ.get(OFFLOAD_VARIABLE, "")
    return int(text) if text.isdecimal() else None


@cache
def start() -> None:
    """Start the backends; later calls do nothing.

    Raises:
        LibraryError: This llama.cpp has no backend.
    """
    # On import, the binding installs a callback that prints to stderr; this callback replaces it.
    native.llama_log_set(log_callback, ctypes.c_void_p(0))
    native.llama_backend_init()
    n_backends = function("ggml_backend_reg_count", ctypes.c_size_t, [])
    if n_backends():
        return
    # Builds with separate backend files (GGML_BACKEND_DL) look for them only beside the Python program.
    folder = Path(cast("str", native._lib._name)).parent
    function("ggml_backend_load_all_from_path", None, [ctypes.c_char_p])(os.fsencode(folder))
    if not n_backends():
        raise import_failure(f"it has no backend, such as the library ggml-cpu, in {folder}")


def clear_errors() -> None:
    """Forget earlier error lines."""
    _errors.clear()


def n_errors() -> int:
    """Return the number of error lines since `clear_errors`, up to 32."""
    return len(_errors)


def last_errors(limit: int = 1) -> str:
    """Return the errors that llama.cpp logged since `clear_errors`; the first names the cause."""
    return "; ".join(list(_errors)[:limit])


def function(name: str, result: Any, arguments: list[Any]) -> Any:
    """Return a function of the library with its own prototype, in ctypes' types.

    Raises:
        AttributeError: This release has no such function.
    """
    for handle in _handles():
        try:
            # Access by index returns a new object, whose prototype may be set.
            found = handle[name]
        except AttributeError:
            continue
        found.restype, found.argtypes = result, arguments
        return found
    raise AttributeError(name)


@cache
def _handles() -> tuple[Any, ...]:
    handle = native._lib
    if sys.platform != "win32":
        # A symbol lookup also searches linked libraries.
        return (handle,)
    llama = Path(cast("str", handle._name))
    # MinGW prefixes them with "lib".
    others = (llama.with_name(llama.name.replace("llama", name)) for name in ("ggml", "ggml-base"))
    return (handle, *(ctypes.CDLL(str(file)) for file in others if file.is_file()))
