"""Ctrl+C as a polite request."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def imported_whole() -> Iterator[None]:
    """Let Ctrl+C count when what is imported in here is imported.

    In the middle Python may turn it into another error, lose it, or remember it when everything has ended well.

    Raises:
        KeyboardInterrupt: At the end, if there was one.
    """
    before, heard = signal.getsignal(signal.SIGINT), []
    if before is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, lambda number, _: heard.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if heard:
        raise KeyboardInterrupt


@contextmanager
def cancel_on_interrupt(cancel: Callable[[], None]) -> Iterator[None]:
    """Turn the first Ctrl+C into a cancel; the second is Python's own again.

    Whoever started the program deaf to it, as a shell does in the background of a script, meant that.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN:
        yield
        return

    def on_interrupt(_: int, __: FrameType | None) -> None:
        signal.signal(signal.SIGINT, before)
        cancel()

    signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
