"""Compute with fewer threads while other programs need the CPU.

The threads of a batch wait for each other after every operation. One that shares its core with another program is half
as fast, and all others spin until it arrives. Measured on two cores with both busy: two threads take 1.8 to 4.2
times as long as one, by batch width.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable

from app.engine.interfaces import Clock

SAMPLE_S = 0.25
"""Seconds between two samples. System counters advance by 0.01 s; a longer interval reacts too late to a short load."""
_STALE_S = 30.0
"""An average over a longer time says nothing about now."""
_IGNORED = 0.45
"""CPUs that other programs may use before a thread yields. A program that wants a whole CPU gets half of it beside a
thread of the model."""
_CONTENDED = 0.1
"""CPUs used by other programs above which batches are timed in CPU time; see `WorkClock`."""
log = logging.getLogger("tandem.threads")
log.addHandler(logging.NullHandler())


class CpuYield:
    """Choose the number of threads as other programs come and go.

    Args:
        apply: Receives the most threads to compute with, whenever that changes.
        n_threads: Threads on an idle machine.
        n_cpus: CPUs that this process may use.
        others: CPU seconds of other programs so far.
        clock: Seconds.
        least: Fewest threads to choose.

    Attributes:
        n_threads: Threads in use now.
    """

    def __init__(
        self,
        apply: Callable[[int], None],
        n_threads: int,
        n_cpus: int,
        others: Callable[[], float],
        clock: Callable[[], float],
        *,
        least: int = 1,
    ) -> None:
        self._apply = apply
        self._most = n_threads
        self._least = least
        self._n_cpus = n_cpus
        self._others = others
        self._clock = clock
        self.n_threads = n_threads
        self._busy, self._is_fresh = 0.0, False
        self._sampled, self._seen = clock(), others()

    def is_contended(self) -> bool:
        """Return whether other programs slow the computation down; take a new sample if the last one is old."""
        self._sample()
        return self._busy > _CONTENDED or self.n_threads < self._most

    def _sample(self) -> None:
        now = self._clock()
        since = now - self._sampled
        if since < SAMPLE_S:
            return
        seen = self._others()
        self._busy = (seen - self._seen) / since if since <= _STALE_S else 0.0
        self._is_fresh = since <= _STALE_S
        self._sampled, self._seen = now, seen

    def update(self) -> None:
        """Adapt the number of threads to the last sample; cheap enough for every step."""
        self._sample()
        if not self._is_fresh:
            return
        self._is_fresh = False
        best = max(self._least, min(self._most, self._n_cpus - math.ceil(max(0.0, self._busy - _IGNORED))))
        # Half the difference, so that two programs that both yield do not oscillate.
        step = best - self.n_threads
        chosen = self.n_threads + int(math.copysign(math.ceil(abs(step) / 2), step))
        if chosen != self.n_threads:
            log.info("other programs take %.1f of %d CPUs: %d threads", self._busy, self._n_cpus, chosen)
            self.n_threads = chosen
            self._apply(chosen)


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
