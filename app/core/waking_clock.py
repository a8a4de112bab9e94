"""Time in which this process ran: not that of ctrl+z, and not that of a machine asleep."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event, Lock, Thread
from types import TracebackType

_LOOK_S = 0.25
_UNSEEN_NS = 2_000_000_000
"""No load keeps a thread from its turn for so long."""


class WakingClock:
    """Monotonic nanoseconds that stand still while the whole process does.

    A call into native code holds the thread that made it, however long it takes; a process that is stopped, or whose
    machine sleeps, runs no thread at all. So a thread looks at the clock every so often as long as it is entered, and
    what passed between two looks of anybody, if it is beyond reason, passed for no one.

    Args:
        clock: Monotonic nanoseconds, which may go on meanwhile.
    """

    def __init__(self, clock: Callable[[], int] = time.perf_counter_ns) -> None:
        self._clock = clock
        self._lock = Lock()
        self._seen = clock()
        self._asleep = 0
        self._left = Event()
        self._looker = Thread(target=self._look, name="clock", daemon=True)

    def __call__(self) -> int:
        with self._lock:
            now = self._clock()
            if now - self._seen > _UNSEEN_NS:
                self._asleep += now - self._seen
            self._seen = now
            return now - self._asleep

    def __enter__(self) -> WakingClock:
        self()
        self._looker.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._left.set()
        self._looker.join()

    def _look(self) -> None:
        while not self._left.wait(_LOOK_S):
            self()
