"""One time limit for a Hugging Face request, over all its attempts and waits."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import wait
from time import monotonic
from typing import TypeVar

from app.core.errors import HubTimeoutError, Interrupted
from app.models.hub.background import in_background
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
