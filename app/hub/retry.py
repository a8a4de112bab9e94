"""How long a download waits, and how often, before it is given up."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from app.errors import HubError, Interrupted, UnreachableError, WaitError
from app.hub.watcher import Watcher

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
_ATTEMPTS_SEEN, _PATIENCE_SEEN_S = 3, 60.0
"""Somebody sits in front of it, and several models may be looked at."""
_PATIENCE_SPARED_S = 5.0
"""There is something that does as well."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How to wait. Tests replace it.

    Attributes:
        pause: Waits some seconds; True as soon as the download was cancelled.
        attempts: Failures in a row, without a new byte between them, until it is given up.
        patience_s: Waits in a row, in seconds, while nothing answers: that is no failure of the hub.
    """

    pause: Callable[[float], bool]
    attempts: int = _ATTEMPTS
    patience_s: float = _PATIENCE_S

    @property
    def brief(self) -> RetryPolicy:
        """The same for what somebody waits for in front of the screen."""
        return replace(self, attempts=_ATTEMPTS_SEEN, patience_s=_PATIENCE_SEEN_S)


class Retries:
    """The failures in a row of one download.

    Args:
        policy: How to wait.
        watcher: Told every second of a wait.
    """

    def __init__(self, policy: RetryPolicy, watcher: Watcher) -> None:
        self._policy = policy
        self._watcher = watcher
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
        left_s, asked_s = self._policy.patience_s - self._waited_s, error.after_s or 0.0
        if self._answers >= self._policy.attempts or left_s <= 0 or asked_s > left_s:
            raise HubError(error.message, f"{error.hint} Ask again{_in_words(asked_s)} to go on.".strip()) from error
        grown = min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2 ** min(self._failures - 1, _DOUBLINGS))
        seconds = error.after_s if error.after_s is not None else grown
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


def patiently(ask: Callable[[], T], retry: RetryPolicy, watcher: Watcher, *, spared: bool = False) -> T:
    """What the hub answers; asked again where it has trouble that may pass, while somebody waits for it.

    A hub that nothing leads to is told of at once: nobody who is offline wants to wait for hearing that.

    Args:
        ask: One request.
        retry: How to wait.
        watcher: Told every second of a wait.
        spared: Whether there is something that does as well: then nobody waits for long.

    Raises:
        HubError: It cannot be had.
        Interrupted: Cancelled.
    """
    policy = retry.brief
    retries = Retries(replace(policy, patience_s=_PATIENCE_SPARED_S) if spared else policy, watcher)
    while True:
        try:
            return ask()
        except UnreachableError:
            raise
        except WaitError as error:
            retries.wait(error)
