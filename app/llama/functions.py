"""Functions of the native libraries that llama-cpp-python does not declare."""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from pathlib import Path
from typing import Any, cast

from app.llama.library import native


def function(name: str, result: Any, arguments: list[Any]) -> Any:
    """A function of the library, with a prototype that nobody else sets.

    Args:
        name: Its name.
        result: The ctypes type that it returns, or None.
        arguments: The types that it takes.

    Raises:
        AttributeError: This release has none of that name.
    """
    for handle in _handles():
        try:
            # By index, which makes an object of its own.
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
        # Looking a name up in a library also searches what it is linked with.
        return (handle,)
    folder = Path(cast("str", handle._name)).parent
    return (handle, *(ctypes.CDLL(str(folder / f"{name}.dll")) for name in ("ggml", "ggml-base")))
