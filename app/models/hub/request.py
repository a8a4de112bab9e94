"""Requests to Hugging Face: retries, one deadline, and progress reports."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass
from time import monotonic
from typing import TypeVar

from app.core.errors import HubError, HubTimeoutError, Interrupted, UnreachableError, WaitError
from app.models.hub.environment import check_named
from app.models.hub.errors import host
from app.models.progress import Watcher

T = TypeVar("T")

LOOKUP_S = 30.0
"""Seconds for a listing or a search."""
HEADER_S = 180.0
"""Seconds for a header: 16 MB at 100 kB/s."""
CACHED_S = 10.0
"""Seconds for a listing where a downloaded file can be used without it."""
_POLL_S = 0.1
_FIRST_WAIT_S, _LONGEST_WAIT_S = 1.0, 60.0
_DOUBLINGS = 6
_TICK_S = 1.0
_ATTEMPTS = 8
"""Two minutes of waiting."""
_LOOKUP_ATTEMPTS = 3
_OFFLINE_S = 12 * 3600.0
"""A download waits a night for the network."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How to wait between attempts.

    Attributes:
        pause: Waits some seconds; True as soon as the download is canceled.
        attempts: Failures in a row, without a new byte between them, before giving up.
        cancelled: Ends a request; checked while it runs.
    """

    pause: Callable[[float], bool]
    attempts: int = _ATTEMPTS
    cancelled: Callable[[], bool] = lambda: False

    def stop_if_cancelled(self) -> None:
        if self.cancelled():
            raise Interrupted


class Retries:
    """Consecutive failures of one download or request.

    Args:
        policy: How to wait.
        watcher: Called every second of a wait.
        left_s: Returns the seconds until the deadline of a request; None for a download.
    """

    def __init__(self, policy: RetryPolicy, watcher: Watcher, left_s: Callable[[], float] | None = None) -> None:
        self._policy = policy
        self._watcher = watcher
        self._left_s = left_s
        self._attempts = policy.attempts if left_s is None else _LOOKUP_ATTEMPTS
        self.reset()

    def reset(self) -> None:
        """Forget earlier failures, after new bytes arrived."""
        self._failures = 0
        self._answers = 0
        self._waited_s = 0.0

    def wait(self, error: WaitError) -> None:
        """Wait as long as the server asks, or twice as long every time.

        Raises:
            HubError: Too many failures, or too long.
            Interrupted: Canceled.
        """
        self._failures += 1
        self._answers += not isinstance(error, UnreachableError)
        left_s = self._left_s() if self._left_s is not None else _OFFLINE_S - self._waited_s
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
    if seconds < 1:
        return ""
    return f" in {math.ceil(seconds)} s" if seconds < 60 else f" in {math.ceil(seconds / 60)} min"


def look_up(
    ask: Callable[[], T],
    retry: RetryPolicy,
    watcher: Watcher,
    seconds: float,
    report: Callable[[], None] = lambda: None,
) -> T:
    """Return the answer to a request; retry temporary failures within one deadline.

    The request runs on a daemon thread that is abandoned at the deadline: a name query cannot be interrupted. A server
    that cannot be reached is an error at once.

    Args:
        ask: One request.
        retry: How to wait, and whether to stop.
        watcher: Receives the status text.
        seconds: Time limit for all attempts together.
        report: Called ten times a second on the caller's thread, and once after each attempt.

    Raises:
        HubError: There is no answer; `HubTimeoutError` at the deadline.
        Interrupted: Canceled.
    """
    ends = monotonic() + seconds
    retries = Retries(retry, watcher, lambda: ends - monotonic())
    while True:
        watcher.waiting(f"Waiting for {host()}", 0)
        future = in_background(ask, "hub request")
        done = False
        while not done:
            retry.stop_if_cancelled()
            if monotonic() >= ends:
                raise HubTimeoutError(
                    f"{host()} took longer than {seconds:.0f} s to answer.",
                    f"Check the network connection, or try again later.{check_named()}",
                )
            done = bool(wait([future], _POLL_S).done)
            report()
        try:
            return future.result()
        except UnreachableError:
            raise
        except WaitError as error:
            retries.wait(error)


def in_background(work: Callable[[], T], name: str) -> Future[T]:
    """Run on a daemon thread, which does not keep the program from exiting."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future
