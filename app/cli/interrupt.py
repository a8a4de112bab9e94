"""Ctrl+C and termination signals as cancel requests."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")
_SIGNALS = tuple(getattr(signal, name) for name in _NAMES if hasattr(signal, name))
"""Ctrl+C, SIGTERM and a closed terminal."""


@contextmanager
def cancel_on_interrupt(cancel: Callable[[], None]) -> Iterator[None]:
    """Cancel at the first signal; the second one ends the program. Ignored signals stay ignored."""
    before = _handlers()

    def on_interrupt(*_: object) -> None:
        # Cancel once: a second call might wait for a lock of the first.
        _set(before)
        cancel()

    _set(dict.fromkeys(before, on_interrupt))
    try:
        yield
    finally:
        _set(before)


def _handlers() -> Mapping[int, Any]:
    """Return the handlers of the signals that are not ignored."""
    now = {number: signal.getsignal(number) for number in _SIGNALS}
    return {number: handler for number, handler in now.items() if handler not in (signal.SIG_IGN, None)}


def _set(handlers: Mapping[int, Any]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)
