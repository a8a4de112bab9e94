"""Daemon threads for network requests, which callers can abandon, and cancelable pauses."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def in_background(work: Callable[[], T], name: str) -> Future[T]:
    """Run on a daemon thread: unlike a thread of an executor, it does not keep the program from ending."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future


class Pause:
    """Waits, and ends early when the user or the other download stops it."""

    def __init__(self, wait_for: Callable[[float], bool], stopped: Callable[[], bool]) -> None:
        self._wait_for = wait_for
        self._stopped = stopped

    def __call__(self, seconds: float) -> bool:
        return self._wait_for(seconds) or self._stopped()
