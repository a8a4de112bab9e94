"""Ctrl+C and termination signals as cancel requests."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from threading import Timer
    from typing import Any

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")
_WINDOW_CLOSED = getattr(signal, "SIGHUP", None)
_HEARD = tuple(getattr(signal, name) for name in _NAMES if hasattr(signal, name))
"""Ctrl+C, SIGTERM and a closed terminal."""
_LAST_S = 20.0
"""Seconds to save and quit after the terminal window closed."""


@contextmanager
def imported_whole() -> Iterator[None]:
    """Delay Ctrl+C until the imports inside are done: an interrupted import may raise anything.

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
    """Cancel at the first signal and end at the second.

    SIGHUP counts once, as system and shell both send it. Signals ignored at start stay ignored.
    """
    mine = _heard()
    ends: list[Timer] = []

    def when_closed(number: int, _: FrameType | None) -> None:
        ends.append(_end_later(number))

    def on_interrupt(number: int, frame: FrameType | None) -> None:
        # Cancel once: a second call might wait for a lock of the first.
        _set({other: when_closed if other == _WINDOW_CLOSED else known for other, known in mine.items()})
        if number == _WINDOW_CLOSED:
            when_closed(number, frame)
        cancel()

    _set(dict.fromkeys(mine, on_interrupt))
    try:
        yield
    finally:
        _set(mine)
        for end in ends:
            end.cancel()


@contextmanager
def ended_at_once() -> Iterator[None]:
    """Let signals end the program at once while it waits for a reply.

    Raises:
        KeyboardInterrupt: Ctrl+C.
    """
    mine = _heard()
    _set({number: signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL for number in mine})
    try:
        yield
    finally:
        _set(mine)


def _end_later(number: int) -> Timer:
    """End the process after the time to save."""
    import os
    from threading import Timer

    end = Timer(_LAST_S, os._exit, (128 + number,))
    end.daemon = True
    end.start()
    return end


def _heard() -> Mapping[int, Any]:
    """Return the handlers of the signals that are not ignored."""
    now = {number: signal.getsignal(number) for number in _HEARD}
    return {number: known for number, known in now.items() if known not in (signal.SIG_IGN, None)}


def _set(handlers: Mapping[int, Any]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)
