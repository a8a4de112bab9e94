"""Requests to Hugging Face: retries, deadlines, and progress reports."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass
from time import monotonic
from typing import Protocol, TypeVar

from app.core.errors import HubError, HubTimeoutError, Interrupted, UnreachableError, WaitError
from app.models.hub.environment import check_named
from app.models.hub.errors import host

T = TypeVar("T")

LOOKUP_S = 30.0
"""Seconds for a listing, a search or a header while no bytes arrive."""
CACHED_S = 10.0
"""Seconds for the same where a downloaded file can be used without the answer."""
_MIN_BYTES_PER_S = 100_000
"""Slowest connection that can load a header: 16 MB take almost three minutes."""
_POLL_S = 0.1
_FIRST_WAIT_S, _LONGEST_WAIT_S = 1.0, 60.0
_DOUBLINGS = 6
_TICK_S = 1.0
_ATTEMPTS = 8
"""Two minutes of waiting."""
_LOOKUP_ATTEMPTS = 3
_OFFLINE_S = 12 * 3600.0
"""A download waits a night for the network."""


class Watcher(Protocol):
    """Progress of a download, called on the thread that downloads."""

    def received(self, n_bytes: int) -> None:
        """Count bytes that arrived."""

    def found(self, n_bytes: int) -> None:
        """Count bytes that were here already; negative when they turn out to be wrong."""

    def waiting(self, reason: str, seconds: float) -> None:
        """Show why no bytes arrive and for how long; "" when they do again."""


class _Unwatched:
    def received(self, n_bytes: int) -> None:
        pass

    def found(self, n_bytes: int) -> None:
        pass

    def waiting(self, reason: str, seconds: float) -> None:
        pass


UNWATCHED: Watcher = _Unwatched()


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How to wait between attempts.

    Attributes:
        pause: Waits some seconds; True as soon as the download is canceled.
        attempts: Failures in a row, without a new byte between them, before giving up.
        patience_s: Seconds to wait in a row while nothing answers.
        cancelled: Ends a request; checked while it runs.
    """

    pause: Callable[[float], bool]
    attempts: int = _ATTEMPTS
    patience_s: float = _OFFLINE_S
    cancelled: Callable[[], bool] = lambda: False


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


class Deadline:
    """Time limit of one request and its retries.

    Args:
        seconds: From now on.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._ends = monotonic() + seconds

    @property
    def left_s(self) -> float:
        """Seconds left; zero or less when the time is up."""
        return self._ends - monotonic()

    def extend(self, n_bytes: int) -> None:
        """Add the time that received bytes may take."""
        seconds = n_bytes / _MIN_BYTES_PER_S
        self._seconds += seconds
        self._ends += seconds

    def check(self, cancelled: Callable[[], bool]) -> None:
        """Raise if the request is canceled or out of time; see `run`."""
        if cancelled():
            raise Interrupted
        if self.left_s <= 0:
            raise HubTimeoutError(
                f"{host()} took longer than {self._seconds:.0f} s to answer.",
                f"Check the network connection, or try again later.{check_named()}",
            )

    def run(self, work: Callable[[], T], cancelled: Callable[[], bool], report: Callable[[], None]) -> T:
        """Run a request on a daemon thread, and abandon it when it is canceled or the time is up.

        A name query, a connection attempt and a read cannot be interrupted from outside, so the caller stops waiting.

        Args:
            work: The request.
            cancelled: Checked ten times a second.
            report: Called as often on the caller's thread, and once after the request has ended.

        Raises:
            HubTimeoutError: The time is up.
            Interrupted: Canceled.
        """
        future = in_background(work, "hub request")
        done = False
        while not done:
            self.check(cancelled)
            done = bool(wait([future], _POLL_S).done)
            report()
        return future.result()


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
    if seconds < 1:
        return ""
    return f" in {math.ceil(seconds)} s" if seconds < 60 else f" in {math.ceil(seconds / 60)} min"


def look_up(ask: Callable[[], T], retry: RetryPolicy, watcher: Watcher, seconds: float) -> T:
    """Return the answer to a request; retry temporary failures within one deadline.

    A server that cannot be reached is an error at once.

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
