"""How long a download waits, and how often, before it is given up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from app.errors import Interrupted, WaitError
from app.hub.watcher import Watcher

_FIRST_WAIT_S = 1.0
_LONGEST_WAIT_S = 60.0
_TICK_S = 1.0
_ATTEMPTS = 8
"""About four minutes of waiting."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How to wait. Tests replace it.

    Attributes:
        pause: Waits some seconds; True as soon as the download was cancelled.
        attempts: Failures in a row, without a new byte between them, until it is given up.
    """

    pause: Callable[[float], bool]
    attempts: int = _ATTEMPTS

    def wait(self, error: WaitError, failures: int, watcher: Watcher) -> None:
        """Wait as long as the hub asks, or twice as long every time, and count down to the watcher.

        Args:
            error: Why.
            failures: In a row, this one among them.
            watcher: Told every second.

        Raises:
            Interrupted: Cancelled.
        """
        grown = min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2 ** (failures - 1))
        seconds = error.after_s if error.after_s is not None else grown
        while seconds > 0:
            watcher.waiting(error.message, seconds)
            if self.pause(min(_TICK_S, seconds)):
                raise Interrupted
            seconds -= _TICK_S
        watcher.waiting("", 0)
