"""ggml's registry of backends and their devices, as native pointers.

Every symbol is taken through the handle of libllama that the binding opened. Opening libggml by another of its names
would make a second copy with a registry of its own, and models are loaded by the first.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from functools import cache
from typing import Any

from app.llama.functions import function
from app.llama.plain import plain

_MOST = 256
"""Devices that are looked at; a registry that claims more is not believed."""

POINTER, _TEXT, _SIZE = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
_SIZE_OUT = ctypes.POINTER(ctypes.c_size_t)
_PROTOTYPES: dict[str, tuple[Any, list[Any]]] = {
    "ggml_backend_dev_count": (_SIZE, []),
    "ggml_backend_dev_get": (POINTER, [_SIZE]),
    "ggml_backend_dev_name": (_TEXT, [POINTER]),
    "ggml_backend_dev_description": (_TEXT, [POINTER]),
    "ggml_backend_dev_memory": (None, [POINTER, _SIZE_OUT, _SIZE_OUT]),
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


def devices() -> Iterator[int]:
    """Every device of every backend, in llama.cpp's order."""
    return _each("ggml_backend_dev_count", "ggml_backend_dev_get")


def registries() -> Iterator[int]:
    """Every backend, those without a device too."""
    return _each("ggml_backend_reg_count", "ggml_backend_reg_get")


def _each(count: str, get: str) -> Iterator[int]:
    for index in range(min(int(call(count) or 0), _MOST)):
        if handle := call(get, index):
            yield handle


def text(name: str, *arguments: Any) -> str:
    """The words that a function of the library gives; "" for none."""
    raw = call(name, *arguments)
    return plain(raw.decode("utf-8", errors="replace")) if raw else ""


def call(name: str, *arguments: Any) -> Any:
    """Call a function of the library; None where this release has no such function."""
    found = _function(name)
    return found(*arguments) if found is not None else None


@cache
def _function(name: str) -> Any:
    try:
        return function(name, *_PROTOTYPES[name])
    except AttributeError:
        return None
