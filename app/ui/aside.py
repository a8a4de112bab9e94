"""Work that may take its time, beside the screen's thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from textual.dom import DOMNode

_T = TypeVar("_T")

PATIENCE_S = 1.0
"""So long what comes after it waits for work that is usually done at once."""


def run_latest(node: DOMNode, work: Callable[[], Coroutine[Any, Any, None]], group: str) -> None:
    """Run something between the messages of a widget or the app; what still runs of its group is given up.

    A function and not its coroutine: one that is given up before it begins would complain that nobody awaited it.
    """
    # Textual asks for a coroutine that is sent None, which no async function promises.
    node.run_worker(work, group=group, exclusive=True)  # type: ignore[arg-type]


async def aside(work: Callable[[], _T]) -> _T:
    """Do something on a thread of its own and return what comes of it."""
    return await begin_aside(work)


async def patiently(future: asyncio.Future[Any]) -> bool:
    """Wait for something for a moment; returns whether it has come, or was given up.

    A widget that waits for a disk that does not answer takes nothing in, and the program would not end before it.
    """
    return bool((await asyncio.wait({future}, timeout=PATIENCE_S))[0])


def begin_aside(work: Callable[[], _T]) -> asyncio.Future[_T]:
    """Begin something on a thread of its own; what comes of it comes to the future, unless that is cancelled before.

    The thread is a daemon: a disk that does not answer must not keep the program from ending, as the event loop's own
    threads would.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[_T] = loop.create_future()

    def settle(result: _T | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result: _T | None = None
        failure: BaseException | None = None
        try:
            result = work()
        except BaseException as error:
            failure = error
        # The loop may have ended meanwhile.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, result, failure)

    threading.Thread(target=run, name="aside", daemon=True).start()
    return future
