"""Being ended from outside: the terminal is restored, and what was said is kept."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable

_BASE = 128
"""A shell's exit code for a signal is this and its number."""
_PATIENCE_S = 3.0


def end_politely(leave: Callable[[int], None]) -> None:
    """Call `leave` with an exit code, on the running event loop, when the program is ended from outside.

    Of such signals Windows has Ctrl+Break alone. A terminal that has gone takes no last words: what restores it could
    wait for ever, so the process ends some seconds later in any case.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    loop = asyncio.get_running_loop()

    def on_signal(code: int) -> None:
        deadline = threading.Timer(_PATIENCE_S, os._exit, (code,))
        deadline.daemon = True
        deadline.start()
        leave(code)

    if sys.platform == "win32":
        code = _BASE + signal.SIGBREAK
        # Its event loops take no handlers; what this wakes them with does.
        signal.signal(signal.SIGBREAK, lambda *_: loop.call_soon_threadsafe(on_signal, code))
    else:
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, on_signal, _BASE + number)
