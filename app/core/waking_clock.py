"""Monotonic time without suspends: not Ctrl+Z, not sleep."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event, Lock, Thread
from types import TracebackType

_TICK_S = 0.25
_SUSPENDED_NS = 2_000_000_000
"""Longest plausible gap between two ticks under load."""


class WakingClock:
    """Monotonic nanoseconds that stand still while the process is suspended.

    While it is entered, a thread reads the clock regularly, also during long native calls. A longer gap between two
    readings means that no thread ran at all, and does not count.

    Args:
        clock: Monotonic nanoseconds.
    """

    def __init__(self, clock: Callable[[], int] = time.perf_counter_ns) -> None:
        self._clock = clock
        self._lock = Lock()
        self._seen = clock()
        self._suspended = 0
        self._stop = Event()
        self._thread = Thread(target=self._tick, name="clock", daemon=True)

    def __call__(self) -> int:
        with self._lock:
            now = self._clock()
            if now - self._seen > _SUSPENDED_NS:
                self._suspended += now - self._seen
            self._seen = now
            return now - self._suspended

    def __enter__(self) -> WakingClock:
        self()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()

    def _tick(self) -> None:
        while not self._stop.wait(_TICK_S):
            self()
