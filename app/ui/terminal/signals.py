"""Restore the terminal and save the conversation when the process is ended from outside."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

_BASE = 128
"""Plus the number of a signal: a shell's exit code."""
_PATIENCE_S = 3.0


def end_politely(leave: Callable[[int], None]) -> None:
    """Call `leave` with an exit code on the running event loop after SIGTERM, SIGHUP, or Ctrl+Break on Windows.

    Restoring a terminal that is gone could wait forever, so the process ends some seconds later in any case.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    loop = asyncio.get_running_loop()

    def on_signal(number: int, _: FrameType | None) -> None:
        code = _BASE + number
        deadline = threading.Timer(_PATIENCE_S, os._exit, (code,))
        deadline.daemon = True
        deadline.start()
        # The loop may have ended.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(leave, code)

    if sys.platform == "win32":
        signal.signal(signal.SIGBREAK, on_signal)
    else:
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, on_signal)
