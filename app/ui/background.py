"""Work that may take its time, off the screen's thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from textual.dom import DOMNode

_T = TypeVar("_T")

BRIEF_S = 1.0
"""Seconds to wait for work that usually takes no time."""


def run_latest(node: DOMNode, work: Callable[[], Coroutine[Any, Any, None]], group: str) -> None:
    """Run a coroutine between the messages of a widget or the app, and cancel what still runs of its group.

    A function, not its coroutine: one that is cancelled before it begins would warn that it was never awaited.
    """
    # Textual asks for a coroutine that is sent None, which no async function promises.
    node.run_worker(work, group=group, exclusive=True)  # type: ignore[arg-type]


async def in_thread(work: Callable[[], _T]) -> _T:
    """Run something on a thread of its own and return its result."""
    return await start_in_thread(work)


async def wait_briefly(future: asyncio.Future[Any]) -> bool:
    """Wait for a moment; return whether the future is done.

    A widget that waits for a hanging disk handles no messages, and the program could not end before it.
    """
    return bool((await asyncio.wait({future}, timeout=BRIEF_S))[0])


def start_in_thread(work: Callable[[], _T]) -> asyncio.Future[_T]:
    """Start something on a thread of its own; return a future for its result.

    The thread is a daemon: a hanging disk must not keep the program from ending, as the event loop's threads would.
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

    threading.Thread(target=run, name="background", daemon=True).start()
    return future
