"""Cancel flag that llama.cpp reads during a decode."""

from __future__ import annotations

import ctypes
import sys
import threading
from typing import Any


class CancelFlag(threading.Event):
    """A flag set from any thread, read by Python between decodes and by llama.cpp inside them.

    llama.cpp calls its abort callback before every graph node. A Python callback would take the interpreter lock a
    thousand times per token, so the callback is the C library's `strlen` and its argument a two-byte string: an empty
    string means continue, one character means stop. If `strlen` cannot be found, the flag works only between decodes.
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
    """Return `strlen` as an abort callback of the given type, if it can be found."""
    try:
        return ctypes.cast(ctypes.CDLL("msvcrt" if sys.platform == "win32" else None).strlen, callback_type)
    except (OSError, AttributeError):
        return None
