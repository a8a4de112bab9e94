"""What the installed llama.cpp can use: its registered backends and devices, as the library itself tells."""

from __future__ import annotations

import ctypes

import psutil

from app.llama import backends, library
from app.llama.backends import POINTER
from app.llama.described import BuildInfo, Device, Kind
from app.llama.device_kinds import is_software, shares_memory
from app.llama.plain import plain

_LAID_OUT = "0.3.36"
"""The release of llama-cpp-python whose ggml-backend.h the numbers in `_KINDS` were read from."""
_KINDS: dict[int, Kind] = {0: "cpu", 1: "gpu", 2: "igpu", 3: "accel", 4: "accel"}


def devices(ram_available: int | None = None) -> tuple[Device, ...]:
    """Every device of every backend, in llama.cpp's order.

    Asking a GPU for its memory makes a context on it, which costs time and some hundred MiB there; a driver that
    refuses that ends the process in some backends. `app.llama.probe` is the careful way.

    Args:
        ram_available: Bytes of main memory that can be had, where the caller knows of a limit; None asks the system.
    """
    library.start()
    return tuple(_device(handle, ram_available) for handle in backends.devices())


def graphics(*, software: bool = True) -> dict[str, int]:
    """Native pointers of what layers can be put on besides the processor, by name; no driver is asked for memory.

    Args:
        software: Whether cards count that the processor plays.
    """
    library.start()
    found: dict[str, int] = {}
    for handle in backends.devices():
        if _kind_of(handle) in (("gpu", "igpu", "software") if software else ("gpu", "igpu")):
            found.setdefault(backends.text("ggml_backend_dev_name", handle), handle)
    return found


def fastest() -> int | None:
    """The native pointer of the device that layers go to first; None if the library lists none."""
    first: dict[Kind, int] = {}
    for handle in backends.devices():
        first.setdefault(_kind_of(handle), handle)
    return next((first[kind] for kind in ("gpu", "igpu", "cpu") if kind in first), None)


def description(device: int) -> str:
    """What a device is, in its driver's words, which are not asked for memory."""
    return backends.text("ggml_backend_dev_description", device)


def is_processor(device: int) -> bool:
    """Whether a native pointer is that of the processor, or of what it plays."""
    return _kind_of(device) in ("cpu", "software")


def set_threads(device: int, backend: int, n_threads: int) -> None:
    """How many threads a backend of the processor computes with; others have no such thing."""
    registry = backends.call("ggml_backend_dev_backend_reg", device)
    address = registry and backends.call("ggml_backend_reg_get_proc_address", registry, b"ggml_backend_set_n_threads")
    if address:
        ctypes.CFUNCTYPE(None, POINTER, ctypes.c_int)(address)(backend, n_threads)


def build() -> BuildInfo:
    """What was installed, in its own words."""
    library.start()
    return BuildInfo(
        binding=library.binding_version,
        version=backends.text("llama_version"),
        commit=backends.text("ggml_commit"),
        ggml=backends.text("ggml_version"),
        backends=tuple(backends.text("ggml_backend_reg_name", registry) for registry in backends.registries()),
        supports_offload=library.supports_offload(),
        features=parse_features(backends.text("llama_print_system_info")),
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


def _device(handle: int, ram_available: int | None) -> Device:
    registry = backends.call("ggml_backend_dev_backend_reg", handle)
    kind = _kind_of(handle)
    free, total = ctypes.c_size_t(0), ctypes.c_size_t(0)
    backends.call("ggml_backend_dev_memory", handle, ctypes.byref(free), ctypes.byref(total))
    if kind == "cpu":
        # ggml takes all of the machine's memory for free.
        free.value = min(psutil.virtual_memory().available if ram_available is None else ram_available, total.value)
    return Device(
        name=backends.text("ggml_backend_dev_name", handle),
        description=backends.text("ggml_backend_dev_description", handle),
        kind=kind,
        backend=backends.text("ggml_backend_reg_name", registry) if registry else "",
        total_bytes=int(total.value),
        free_bytes=int(free.value),
    )


def _kind_of(handle: int) -> Kind:
    kind = _kind(int(backends.call("ggml_backend_dev_type", handle)))
    if kind not in ("gpu", "igpu"):
        return kind
    description = backends.text("ggml_backend_dev_description", handle)
    if is_software(description):
        return "software"
    return "igpu" if shares_memory(backends.text("ggml_backend_dev_name", handle), description) else kind


def _kind(number: int) -> Kind:
    # 0 and 1 never moved; a number was put between the others once.
    return _KINDS.get(number, "accel") if number < 2 or library.binding_version == _LAID_OUT else "accel"
