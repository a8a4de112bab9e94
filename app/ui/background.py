"""Work off the screen's thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from textual.dom import DOMNode

_T = TypeVar("_T")


def run_latest(node: DOMNode, work: Callable[[], Coroutine[Any, Any, None]], group: str) -> None:
    """Run a coroutine between the messages of a widget or the app, and cancel what still runs of its group.

    A function, not its coroutine: one that is cancelled before it begins would warn that it was never awaited.
    """
    # Textual asks for a coroutine that is sent None, which no async function promises.
    node.run_worker(work, group=group, exclusive=True)  # type: ignore[arg-type]


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
