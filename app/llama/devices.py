"""Backends and devices of the installed llama.cpp, from ggml's registry."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from typing import Any

import psutil

from app.core.errors import ModelLoadError
from app.core.printable import one_line
from app.hardware.devices import BuildInfo, Device, Kind
from app.llama import library

_KIND_BY_TYPE: dict[int, Kind] = {0: "cpu", 1: "gpu", 2: "igpu", 3: "accel", 4: "accel"}
"""`ggml_backend_dev_type`."""
_SOFTWARE_RENDERERS = ("llvmpipe", "lavapipe", "swiftshader", "microsoft basic render")
"""Words in the names of drivers that render on the CPU; llama.cpp lists their devices as GPUs."""
_METAL_NAMES = ("MTL", "Metal")
_SHARING_VENDORS = ("Apple", "Intel")
"""Vendors of GPUs that share RAM."""


def devices(ram_available: int | None = None) -> tuple[Device, ...]:
    """Return every device of every backend, in llama.cpp's order.

    Querying a GPU's memory creates a context on it, which takes time and memory and aborts with some broken drivers;
    `app.llama.child` does it in a child process.

    Args:
        ram_available: Available RAM in bytes; None asks the system.
    """
    library.start()
    return tuple(describe(handle, ram_available) for handle in _each("dev"))


def graphics(*, software: bool = True) -> dict[str, int]:
    """Return native pointers of GPUs and software renderers by name, without asking a driver for memory."""
    library.start()
    found: dict[str, int] = {}
    for handle in _each("dev"):
        if _kind_of(handle) in (("gpu", "igpu", "software") if software else ("gpu", "igpu")):
            found.setdefault(library_text("ggml_backend_dev_name", handle), handle)
    return found


def fastest(kinds: Sequence[Kind] = ("gpu", "igpu", "cpu")) -> int | None:
    """Return the native pointer of the first device of these kinds, in this order, if any."""
    first: dict[Kind, int] = {}
    for handle in _each("dev"):
        first.setdefault(_kind_of(handle), handle)
    return next((first[kind] for kind in kinds if kind in first), None)


def memory_type(device: int | None) -> int:
    """Return the `ggml_backend_buffer_type_t` of a device, or of RAM for None; 0 if llama.cpp has none."""
    if device is None:
        return int(library_call("ggml_backend_cpu_buffer_type") or 0)
    return int(library_call("ggml_backend_dev_buffer_type", device) or 0)


def description(device: int) -> str:
    """Return the driver's description of a device."""
    return library_text("ggml_backend_dev_description", device)


def set_threads(device: int, backend: int, n_threads: int) -> None:
    """Set the threads of a CPU backend; other backends have no such setting."""
    registry = library_call("ggml_backend_dev_backend_reg", device)
    address = registry and library_call("ggml_backend_reg_get_proc_address", registry, b"ggml_backend_set_n_threads")
    if address:
        ctypes.CFUNCTYPE(None, POINTER, ctypes.c_int)(address)(backend, n_threads)


def build() -> BuildInfo:
    """Describe the installed build."""
    library.start()
    return BuildInfo(
        binding=library.binding_version,
        version=library_text("llama_version"),
        commit=library_text("ggml_commit") or None,
        ggml=library_text("ggml_version"),
        backends=tuple(library_text("ggml_backend_reg_name", registry) for registry in _each("reg")),
        supports_offload=bool(library.native.llama_supports_gpu_offload()),
        features=parse_features(library_text("llama_print_system_info")),
        errors=one_line(library.last_errors(4)),
    )


def parse_features(text: str) -> tuple[str, ...]:
    """Return the enabled names in "CPU : SSE3 = 1 | AVX2 = 1 | CUDA : ARCHS = 890 | ", each once."""
    names: dict[str, None] = {}
    for part in text.split("|"):
        name, _, value = part.rpartition(":")[2].partition("=")
        if name.strip() and value.strip() not in ("", "0"):
            names[name.strip() if value.strip() == "1" else f"{name.strip()}={value.strip()}"] = None
    return tuple(names)


def describe(handle: int, ram_available: int | None = None) -> Device:
    """Return a device with its free memory, like `devices`."""
    registry = library_call("ggml_backend_dev_backend_reg", handle)
    kind = _kind_of(handle)
    free, total = ctypes.c_size_t(0), ctypes.c_size_t(0)
    library_call("ggml_backend_dev_memory", handle, ctypes.byref(free), ctypes.byref(total))
    if kind == "cpu":
        # ggml reports all RAM as free.
        free.value = min(psutil.virtual_memory().available if ram_available is None else ram_available, total.value)
    return Device(
        name=library_text("ggml_backend_dev_name", handle),
        kind=kind,
        backend=library_text("ggml_backend_reg_name", registry) if registry else "",
        free_bytes=int(free.value),
        description=description(handle),
        total_bytes=int(total.value),
    )


def _kind_of(handle: int) -> Kind:
    kind = _KIND_BY_TYPE.get(int(library_call("ggml_backend_dev_type", handle)), "accel")
    if kind not in ("gpu", "igpu"):
        return kind
    about = description(handle)
    if any(word in about.lower() for word in _SOFTWARE_RENDERERS):
        return "software"
    # llama.cpp lists every Metal device as a GPU with its own memory.
    shares_memory = library_text("ggml_backend_dev_name", handle).startswith(_METAL_NAMES) and about.startswith(
        _SHARING_VENDORS
    )
    return "igpu" if shares_memory else kind


POINTER, _TEXT, _SIZE = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
_SIZE_OUT = ctypes.POINTER(ctypes.c_size_t)
_FUNCTION_PROTOTYPES: dict[str, tuple[Any, list[Any]]] = {
    "ggml_backend_dev_count": (_SIZE, []),
    "ggml_backend_dev_get": (POINTER, [_SIZE]),
    "ggml_backend_dev_name": (_TEXT, [POINTER]),
    "ggml_backend_dev_description": (_TEXT, [POINTER]),
    "ggml_backend_dev_memory": (None, [POINTER, _SIZE_OUT, _SIZE_OUT]),
    "ggml_backend_dev_buffer_type": (POINTER, [POINTER]),
    "ggml_backend_cpu_buffer_type": (POINTER, []),
    "ggml_backend_dev_type": (ctypes.c_int, [POINTER]),
    "ggml_backend_dev_backend_reg": (POINTER, [POINTER]),
    "ggml_backend_reg_count": (_SIZE, []),
    "ggml_backend_reg_get": (POINTER, [_SIZE]),
    "ggml_backend_reg_name": (_TEXT, [POINTER]),
    "ggml_backend_reg_by_name": (POINTER, [_TEXT]),
    "ggml_backend_reg_get_proc_address": (POINTER, [POINTER, _TEXT]),
    "ggml_backend_register": (None, [POINTER]),
    "ggml_version": (_TEXT, []),
    "ggml_commit": (_TEXT, []),
    "llama_version": (_TEXT, []),
    "llama_print_system_info": (_TEXT, []),
}


def _each(kind: str) -> Iterator[int]:
    for index in range(library_call(f"ggml_backend_{kind}_count")):
        yield library_call(f"ggml_backend_{kind}_get", index)


def library_text(name: str, *arguments: Any) -> str:
    """Return the text from a function of the library; a null pointer is an empty text."""
    raw = library_call(name, *arguments)
    return one_line(raw.decode("utf-8", errors="replace")) if raw else ""


def library_call(name: str, *arguments: Any) -> Any:
    """Call a function of the library."""
    return library.function(name, *_FUNCTION_PROTOTYPES[name])(*arguments)


def add_servers(addresses: Sequence[str]) -> None:
    """Add the devices of remote servers as RPC0, RPC1 and so on.

    llama.cpp waits for a server without a limit, and aborts if a server disappears: check it with `app.hardware.rpc`
    first, and call this in a process that may die.

    Args:
        addresses: Addresses such as "192.168.1.20:50052".

    Raises:
        ModelLoadError: This llama.cpp has no RPC, or a server has no devices.
    """
    if not addresses:
        return
    library.start()
    # A NULL registry would abort.
    registry = library_call("ggml_backend_reg_by_name", b"RPC")
    function = registry and library_call("ggml_backend_reg_get_proc_address", registry, b"ggml_backend_rpc_add_server")
    if not function:
        raise ModelLoadError("The installed llama.cpp is built without RPC.", "Leave ⟨rpc⟩ out.")
    add = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p)(function)
    for address in addresses:
        server = add(address.encode("ascii"))
        if not server:
            raise ModelLoadError(f"{address} has no devices.", "Leave ⟨rpc⟩ out.")
        library_call("ggml_backend_register", server)


def report(ram_available: int | None) -> tuple[BuildInfo, tuple[Device, ...]]:
    """Describe the build and its devices, in the child of `app.llama.child.probe`."""
    return build(), devices(ram_available)
