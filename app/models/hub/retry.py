"""How long a download waits, and how often, before it is given up."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from app.core.errors import HubError, Interrupted, UnreachableError, WaitError
from app.models.hub.deadline import Deadline
from app.models.hub.errors import host
from app.models.hub.watcher import Watcher

T = TypeVar("T")

_FIRST_WAIT_S = 1.0
_LONGEST_WAIT_S = 60.0
_DOUBLINGS = 6
_TICK_S = 1.0
_ATTEMPTS = 8
"""Two minutes of waiting."""
_MINUTE_S = 60.0
_PATIENCE_S = 12 * 3600.0
"""A night: who is asleep can neither mend the network nor ask again."""
_LOOKUP_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How to wait. Tests replace it.

    Attributes:
        pause: Waits some seconds; True as soon as the download was cancelled.
        attempts: Failures in a row, without a new byte between them, until it is given up.
        patience_s: Waits in a row, in seconds, while nothing answers: that is no failure of the hub.
        cancelled: Ends a request; checked while it runs.
    """

    pause: Callable[[float], bool]
    attempts: int = _ATTEMPTS
    patience_s: float = _PATIENCE_S
    cancelled: Callable[[], bool] = lambda: False


class Retries:
    """Consecutive failures of one download or request.

    Args:
        policy: How to wait.
        watcher: Told every second of a wait.
        deadline: Time limit of a request, which makes fewer attempts than a download; None for a download.
    """

    def __init__(self, policy: RetryPolicy, watcher: Watcher, deadline: Deadline | None = None) -> None:
        self._policy = policy
        self._watcher = watcher
        self._deadline = deadline
        self._attempts = policy.attempts if deadline is None else _LOOKUP_ATTEMPTS
        self.renew()

    def renew(self) -> None:
        """Something came: what failed before does not count any more."""
        self._failures = 0
        self._answers = 0
        self._waited_s = 0.0

    def wait(self, error: WaitError) -> None:
        """Wait as long as the hub asks, or twice as long every time, and count down to the watcher.

        Raises:
            HubError: It failed too often, or for too long, or asks for more patience than there is.
            Interrupted: Cancelled.
        """
        self._failures += 1
        self._answers += not isinstance(error, UnreachableError)
        left_s = self._policy.patience_s - self._waited_s if self._deadline is None else self._deadline.left_s
        grown = min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2 ** min(self._failures - 1, _DOUBLINGS))
        seconds = error.after_s if error.after_s is not None else grown
        if self._answers >= self._attempts or seconds > left_s:
            again = f"Try again{_in_words(error.after_s or 0.0)} to continue."
            raise HubError(error.message, f"{error.hint} {again}".strip()) from error
        self._waited_s += seconds
        while seconds > 0:
            self._watcher.waiting(error.message, seconds)
            if self._policy.pause(min(_TICK_S, seconds)):
                raise Interrupted
            seconds -= _TICK_S
        self._watcher.waiting("", 0)


def _in_words(seconds: float) -> str:
    """When to ask again, as a hub says it; rounded up, so that it does not have to say it once more."""
    if seconds < 1:
        return ""
    return f" in {math.ceil(seconds)} s" if seconds < _MINUTE_S else f" in {math.ceil(seconds / _MINUTE_S)} min"


def look_up(ask: Callable[[], T], retry: RetryPolicy, watcher: Watcher, seconds: float) -> T:
    """Return the answer to a request; retry temporary failures within one deadline.

    A hub that cannot be reached is an error at once.

    Args:
        ask: One request.
        retry: How to wait.
        watcher: Receives the status text.
        seconds: Time limit for all attempts together.

    Raises:
        HubError: There is no answer; `HubTimeoutError` at the deadline.
        Interrupted: Canceled.
    """
    deadline = Deadline(seconds)
    retries = Retries(retry, watcher, deadline)
    while True:
        watcher.waiting(waiting_for_hub(), 0)
        try:
            return deadline.run(ask, retry.cancelled, lambda: None)
        except UnreachableError:
            raise
        except WaitError as error:
            retries.wait(error)


def waiting_for_hub() -> str:
    """Return the status text while a request is pending."""
    return f"Waiting for {host()}"
