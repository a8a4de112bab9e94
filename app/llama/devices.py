"""What the installed llama.cpp can use: its registered backends and devices, as the library itself tells.

Every symbol is taken through the handle of libllama that the binding opened. Opening libggml by another of its names
would make a second copy with a registry of its own, and models are loaded by the first.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, Literal

import psutil

from app.child import Ending, ask_python
from app.errors import ModelLoadError
from app.llama import library
from app.llama.device_kinds import is_software, shares_memory
from app.llama.functions import function
from app.llama.plain import plain

Kind = Literal["cpu", "gpu", "igpu", "accel", "software"]

_LAID_OUT = "0.3.36"
"""The release of llama-cpp-python whose ggml-backend.h the numbers in `_KINDS` were read from."""
_KINDS: dict[int, Kind] = {0: "cpu", 1: "gpu", 2: "igpu", 3: "accel", 4: "accel"}
_MOST = 256
"""Devices that are looked at; a registry that claims more is not believed."""
_PROBE_SECONDS = 60.0

_POINTER, _TEXT, _SIZE = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
_SIZE_OUT = ctypes.POINTER(ctypes.c_size_t)
_PROTOTYPES: dict[str, tuple[Any, list[Any]]] = {
    "ggml_backend_dev_count": (_SIZE, []),
    "ggml_backend_dev_get": (_POINTER, [_SIZE]),
    "ggml_backend_dev_name": (_TEXT, [_POINTER]),
    "ggml_backend_dev_description": (_TEXT, [_POINTER]),
    "ggml_backend_dev_memory": (None, [_POINTER, _SIZE_OUT, _SIZE_OUT]),
    "ggml_backend_dev_type": (ctypes.c_int, [_POINTER]),
    "ggml_backend_dev_backend_reg": (_POINTER, [_POINTER]),
    "ggml_backend_reg_count": (_SIZE, []),
    "ggml_backend_reg_get": (_POINTER, [_SIZE]),
    "ggml_backend_reg_name": (_TEXT, [_POINTER]),
    "ggml_backend_reg_by_name": (_POINTER, [_TEXT]),
    "ggml_backend_reg_get_proc_address": (_POINTER, [_POINTER, _TEXT]),
    "ggml_backend_register": (None, [_POINTER]),
    "ggml_version": (_TEXT, []),
    "ggml_commit": (_TEXT, []),
    "llama_version": (_TEXT, []),
    "llama_print_system_info": (_TEXT, []),
}


@dataclass(frozen=True, slots=True)
class Device:
    """Something that can hold and compute layers.

    Attributes:
        name: llama.cpp's, such as "CUDA0".
        description: Such as "NVIDIA GeForce RTX 4090".
        kind: "gpu" has memory of its own, "igpu" shares the processor's, "accel" helps the processor, and "software"
            is the processor, which plays a card.
        backend: Such as "CUDA".
        total_bytes: Its memory; 0 where the library does not know.
        free_bytes: Of that, now; for the processor what can be had without swapping.
    """

    name: str
    description: str
    kind: Kind
    backend: str
    total_bytes: int
    free_bytes: int


@dataclass(frozen=True, slots=True)
class BuildInfo:
    """The installed build.

    Attributes:
        binding: Version of llama-cpp-python.
        version: Version of llama.cpp; empty if it does not tell.
        commit: Commit that it was built from; empty if it does not tell.
        ggml: Version of ggml; empty if it does not tell.
        backends: Registered backends, in llama.cpp's order, those without a device too.
        supports_offload: Whether layers can go to a GPU.
        features: What the backends were compiled for, such as "AVX2".
        errors: What llama.cpp logged as errors while it looked for devices.
    """

    binding: str
    version: str
    commit: str
    ggml: str
    backends: tuple[str, ...]
    supports_offload: bool
    features: tuple[str, ...]
    errors: str


def devices(ram_available: int | None = None) -> tuple[Device, ...]:
    """Every device of every backend, in llama.cpp's order.

    Asking a GPU for its memory makes a context on it, which costs time and some hundred MiB there; a driver that
    refuses that ends the process in some backends. `probe` is the careful way.

    Args:
        ram_available: Bytes of main memory that can be had, where the caller knows of a limit; None asks the system.
    """
    library.start()
    found = []
    for index in range(min(int(_call("ggml_backend_dev_count") or 0), _MOST)):
        handle = _call("ggml_backend_dev_get", index)
        if handle:
            found.append(_device(handle, ram_available))
    return tuple(found)


def graphics(*, software: bool = True) -> dict[str, int]:
    """Native pointers of what layers can be put on besides the processor, by name; no driver is asked for memory.

    Args:
        software: Whether cards count that the processor plays.
    """
    library.start()
    found: dict[str, int] = {}
    for index in range(min(int(_call("ggml_backend_dev_count") or 0), _MOST)):
        handle = _call("ggml_backend_dev_get", index)
        if handle and _kind_of(handle) in (("gpu", "igpu", "software") if software else ("gpu", "igpu")):
            found.setdefault(_text("ggml_backend_dev_name", handle), handle)
    return found


def fastest() -> int | None:
    """The native pointer of the device that layers go to first; None if the library lists none."""
    first: dict[Kind, int] = {}
    for index in range(min(int(_call("ggml_backend_dev_count") or 0), _MOST)):
        if handle := _call("ggml_backend_dev_get", index):
            first.setdefault(_kind_of(handle), handle)
    return next((first[kind] for kind in ("gpu", "igpu", "cpu") if kind in first), None)


def is_processor(device: int) -> bool:
    """Whether a native pointer is that of the processor, or of what it plays."""
    return _kind_of(device) in ("cpu", "software")


def set_threads(device: int, backend: int, n_threads: int) -> None:
    """How many threads a backend of the processor computes with; others have no such thing."""
    registry = _call("ggml_backend_dev_backend_reg", device)
    address = registry and _call("ggml_backend_reg_get_proc_address", registry, b"ggml_backend_set_n_threads")
    if address:
        ctypes.CFUNCTYPE(None, _POINTER, ctypes.c_int)(address)(backend, n_threads)


def build() -> BuildInfo:
    """What was installed, in its own words."""
    library.start()
    registries = [
        _call("ggml_backend_reg_get", i) for i in range(min(int(_call("ggml_backend_reg_count") or 0), _MOST))
    ]
    backends = tuple(_text("ggml_backend_reg_name", registry) for registry in registries if registry)
    return BuildInfo(
        binding=library.binding_version,
        version=_text("llama_version"),
        commit=_text("ggml_commit"),
        ggml=_text("ggml_version"),
        backends=backends,
        supports_offload=library.supports_offload(),
        features=parse_features(_text("llama_print_system_info")),
        errors=plain(library.last_errors(4)),
    )


def parse_features(text: str) -> tuple[str, ...]:
    """The names that are on in "CPU : SSE3 = 1 | AVX2 = 1 | CUDA : ARCHS = 890 | ", each once."""
    names: dict[str, None] = {}
    for part in text.split("|"):
        name, _, value = part.rpartition(":")[2].partition("=")
        if name.strip() and value.strip() not in ("", "0"):
            names[name.strip() if value.strip() == "1" else f"{name.strip()}={value.strip()}"] = None
    return tuple(names)


def probe(ram_available: int | None = None, seconds: float = _PROBE_SECONDS) -> tuple[BuildInfo, tuple[Device, ...]]:
    """`build` and `devices` from a child process, so that a driver that crashes or hangs takes only that down.

    Raises:
        ModelLoadError: llama.cpp cannot be loaded, or did not survive looking at its devices.
    """
    code = f"from app.llama.devices import _tell; _tell({ram_available!r})"
    try:
        done = ask_python(code, seconds)
    except subprocess.TimeoutExpired:
        raise ModelLoadError(
            f"llama.cpp did not list its devices within {seconds:g} seconds.", "A graphics driver may hang; restart."
        ) from None
    except OSError as error:
        raise ModelLoadError(f"A second Python cannot be started: {error.strerror}.") from error
    lines = done.stdout.decode("utf-8", errors="replace").splitlines()
    if done.returncode != 0 or not lines:
        said = done.stderr.decode("utf-8", errors="replace").strip().rpartition("\n")[2]
        raise ModelLoadError(
            f"llama.cpp ended {Ending(done.returncode).how} when asked for its devices: {plain(said) or 'no word'}.",
            "A graphics driver may be broken; update it, or install another build of llama-cpp-python.",
        )
    return _heard(lines[-1])


def _tell(ram_available: int | None) -> None:
    """The child's side of `probe`."""
    try:
        answer: dict[str, Any] = {
            "build": asdict(build()),
            "devices": [asdict(device) for device in devices(ram_available)],
        }
    except ModelLoadError as error:
        answer = {"message": error.message, "hint": error.hint}
    sys.stdout.write(json.dumps(answer) + "\n")


def _heard(line: str) -> tuple[BuildInfo, tuple[Device, ...]]:
    try:
        answer = json.loads(line)
        if "message" not in answer:
            about: dict[str, Any] = answer["build"]
            for name in ("backends", "features"):
                about[name] = tuple(about[name])
            return BuildInfo(**about), tuple(Device(**device) for device in answer["devices"])
        message, hint = str(answer["message"]), str(answer["hint"])
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ModelLoadError("llama.cpp gave no answer that can be read when asked for its devices.") from error
    raise ModelLoadError(message, hint)


def _device(handle: int, ram_available: int | None) -> Device:
    registry = _call("ggml_backend_dev_backend_reg", handle)
    kind = _kind_of(handle)
    free, total = ctypes.c_size_t(0), ctypes.c_size_t(0)
    _call("ggml_backend_dev_memory", handle, ctypes.byref(free), ctypes.byref(total))
    if kind == "cpu":
        # ggml takes all of the machine's memory for free.
        free.value = min(psutil.virtual_memory().available if ram_available is None else ram_available, total.value)
    return Device(
        name=_text("ggml_backend_dev_name", handle),
        description=_text("ggml_backend_dev_description", handle),
        kind=kind,
        backend=_text("ggml_backend_reg_name", registry) if registry else "",
        total_bytes=int(total.value),
        free_bytes=int(free.value),
    )


def _kind_of(handle: int) -> Kind:
    kind = _kind(int(_call("ggml_backend_dev_type", handle)))
    if kind not in ("gpu", "igpu"):
        return kind
    description = _text("ggml_backend_dev_description", handle)
    if is_software(description):
        return "software"
    return "igpu" if shares_memory(_text("ggml_backend_dev_name", handle), description) else kind


def _kind(number: int) -> Kind:
    # 0 and 1 never moved; a number was put between the others once.
    return _KINDS.get(number, "accel") if number < 2 or library.binding_version == _LAID_OUT else "accel"


def _text(name: str, *arguments: Any) -> str:
    raw = _call(name, *arguments)
    return plain(raw.decode("utf-8", errors="replace")) if raw else ""


def _call(name: str, *arguments: Any) -> Any:
    """Call a function of the library; None where this release has no such function."""
    function = _function(name)
    return function(*arguments) if function is not None else None


@cache
def _function(name: str) -> Any:
    try:
        return function(name, *_PROTOTYPES[name])
    except AttributeError:
        return None
