"""Work on a thread that does not keep the program from ending."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

_T = TypeVar("_T")


def in_background(work: Callable[[], _T], name: str) -> Future[_T]:
    """Run something on a daemon thread: other threads would keep the program from ending while a disk hangs."""
    future: Future[_T] = Future()
    # A future that runs cannot be canceled, so that it always takes the result.
    future.set_running_or_notify_cancel()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future
