"""Being ended from outside: the terminal is restored, and what was said is kept."""

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
"""A shell's exit code for a signal is this and its number."""
_PATIENCE_S = 3.0


def end_politely(leave: Callable[[int], None]) -> None:
    """Call `leave` with an exit code, on the running event loop, when the program is ended from outside.

    Of such signals Windows has Ctrl+Break alone. A terminal that has gone, or is no longer read, takes no last words:
    what restores it could wait for ever, so the process ends some seconds later in any case. The loop itself may be
    waiting for such a terminal, and hears nothing then; the time runs all the same.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    loop = asyncio.get_running_loop()

    def on_signal(number: int, _: FrameType | None) -> None:
        code = _BASE + number
        deadline = threading.Timer(_PATIENCE_S, os._exit, (code,))
        deadline.daemon = True
        deadline.start()
        # The loop may have ended, and the program with it, but for the models.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(leave, code)

    if sys.platform == "win32":
        signal.signal(signal.SIGBREAK, on_signal)
    else:
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, on_signal)
