"""What the library says before it ends the process."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from app.llama.functions import function

_Callback = ctypes.CFUNCTYPE(None, ctypes.c_char_p)
_kept: object = None
"""Held for the life of the process: ggml keeps the bare pointer."""


def on_abort(say: Callable[[str], None]) -> None:
    """Have the library's last words told before it ends the process; nothing can keep it from ending.

    Args:
        say: Called once, on whatever thread died; it replaces the one given before.
    """
    global _kept
    try:
        set_callback = function("ggml_set_abort_callback", ctypes.c_void_p, [_Callback])
    except AttributeError:
        # A release without it; there the exit code must do.
        return
    callback = _Callback(lambda message: say(message.decode("utf-8", errors="replace")))
    set_callback(callback)
    _kept = callback
