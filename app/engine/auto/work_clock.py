"""A clock for costs: the time that a step would take if no other program ran."""

from __future__ import annotations

from collections.abc import Callable

from app.engine.interfaces import Clock


class WorkClock:
    """Count wall time while the machine is idle, and CPU time per thread while other programs compete.

    A thread that waits for its turn on a CPU spends wall time and no CPU time. Measured on two cores, both
    busy, with two threads: single-token steps took 0.2 to 1.8 s of wall time.

    Args:
        wall: Nanoseconds of wall time.
        cpu: Nanoseconds of CPU time of this process, all threads together.
        n_threads: Threads on an idle machine.
        is_contended: Whether other programs compete now.
    """

    def __init__(self, wall: Clock, cpu: Clock, n_threads: int, is_contended: Callable[[], bool]) -> None:
        self._wall = wall
        self._cpu = cpu
        self._n_threads = n_threads
        self._is_contended = is_contended
        self._worked = 0
        self._at = wall(), cpu()

    def __call__(self) -> int:
        wall, cpu = self._wall(), self._cpu()
        took, computed = wall - self._at[0], cpu - self._at[1]
        self._worked += min(took, computed // self._n_threads) if self._is_contended() else took
        self._at = wall, cpu
        return self._worked
