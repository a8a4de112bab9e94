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

_SIGNAL_EXIT = 128
"""Added to the number of a signal: the exit code by a shell's convention."""
TIMEOUT_S = 3.0


def end_politely(leave: Callable[[int], None]) -> None:
    """Call `leave` with an exit code on the running event loop after SIGTERM, SIGHUP, or Ctrl+Break on Windows.

    Restoring a terminal that is gone could block for ever, so the process exits some seconds later in any case.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    loop = asyncio.get_running_loop()

    def on_signal(number: int, _: FrameType | None) -> None:
        code = _SIGNAL_EXIT + number
        deadline = threading.Timer(TIMEOUT_S, os._exit, (code,))
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
