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
    llama = Path(cast("str", handle._name))
    # Beside llama.dll; MinGW writes "lib" in front of all of them. Where one library holds everything there are none.
    others = (llama.with_name(llama.name.replace("llama", name)) for name in ("ggml", "ggml-base"))
    return (handle, *(ctypes.CDLL(str(file)) for file in others if file.is_file()))
