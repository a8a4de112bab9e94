"""Cancel flag that llama.cpp reads in the middle of a decode."""

from __future__ import annotations

import ctypes
import sys
import threading
from typing import Any


class CancelFlag(threading.Event):
    """Set from any thread, read by Python between decodes and by llama.cpp inside them.

    llama.cpp asks its abort callback before every graph node. A Python callback would take the interpreter lock a
    thousand times per token, so the callback is the C library's `strlen` and its argument a two-byte string: empty
    means go on, one character means stop. Where `strlen` cannot be found the flag works between decodes only.
    """

    def __init__(self) -> None:
        super().__init__()
        self._text = ctypes.create_string_buffer(2)

    def set(self) -> None:
        super().set()
        self._text[0] = b"!"

    def clear(self) -> None:
        self._text[0] = b"\0"
        super().clear()

    def __call__(self) -> bool:
        return self.is_set()

    @property
    def address(self) -> int:
        """Address of the string; valid as long as this object."""
        return ctypes.addressof(self._text)


def strlen_callback(callback_type: Any) -> Any | None:
    """Return `strlen` as an abort callback of the given type; None if it cannot be found."""
    try:
        return ctypes.cast(ctypes.CDLL("msvcrt" if sys.platform == "win32" else None).strlen, callback_type)
    except (OSError, AttributeError):
        return None
