"""Work beside the work: threads that hold nobody up, and waits that two may end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path


def in_background(work: Callable[[], Path], name: str) -> Future[Path]:
    """Run on a thread that does not keep the program from ending, unlike those of an executor."""
    future: Future[Path] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name=f"download {name}", daemon=True).start()
    return future


class Pause:
    """Waits, and ends early when the user or the other download stops it."""

    def __init__(self, wait_for: Callable[[float], bool], stopped: Callable[[], bool]) -> None:
        self._wait_for = wait_for
        self._stopped = stopped

    def __call__(self, seconds: float) -> bool:
        return self._wait_for(seconds) or self._stopped()
