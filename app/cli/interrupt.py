"""Ctrl+C, and being ended from outside, as a polite request."""

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
"""Ctrl+C, and how a program is ended from outside: by another one, and by its terminal that goes."""
_LAST_S = 20.0
"""Until a program whose window is closed ends for good: nobody is there to see that it hangs."""


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
    """Turn the first Ctrl+C, or the first time that somebody ends the program, into a cancel; the second one ends it.

    A window that closes tells so more than once, through the system and through its shell; that is one time. Whoever
    started the program deaf to one of them, as a shell does in the background of a script, meant that.
    """
    mine = _heard()
    ends: list[Timer] = []

    def when_closed(number: int, _: FrameType | None) -> None:
        ends.append(_end_later(number))

    def on_interrupt(number: int, frame: FrameType | None) -> None:
        # Once: what is cancelled may hold the very lock that a second time would wait for.
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
    """Let Ctrl+C and whoever ends the program do so at once in here: nobody looks for a cancel who waits for a reply.

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
    """Give what was begun the time to be saved, and no more."""
    # Takes a while to import, and hardly any command is ended so.
    import os
    from threading import Timer

    end = Timer(_LAST_S, os._exit, (128 + number,))
    end.daemon = True
    end.start()
    return end


def _heard() -> Mapping[int, Any]:
    """What is done about each of them now, without those that the program is deaf to."""
    now = {number: signal.getsignal(number) for number in _HEARD}
    return {number: known for number, known in now.items() if known not in (signal.SIG_IGN, None)}


def _set(handlers: Mapping[int, Any]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)
