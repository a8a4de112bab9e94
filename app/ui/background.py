"""Work off the screen's thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

_T = TypeVar("_T")


async def in_thread(work: Callable[[], _T]) -> _T:
    """Run something on a thread of its own and return its result.

    The thread is a daemon: the event loop's own threads would keep the program from ending while a disk hangs.
    """
    future: Future[_T] = Future()
    # A future that runs cannot be cancelled, so that it always takes the result.
    future.set_running_or_notify_cancel()

    def run() -> None:
        try:
            result = work()
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(result)

    threading.Thread(target=run, name="background", daemon=True).start()
    return await asyncio.wrap_future(future)
