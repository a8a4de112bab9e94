"""Leaving processors to other programs, because a model's threads wait for each other.

Every operation of a batch ends when the slowest thread has done its part. A thread that shares its processor with
another program is half as fast, and all others wait for it, burning theirs: one busy program beside two threads on two
processors more than halves the speed, where one thread alone keeps two thirds of it.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable

SAMPLE_S = 0.5
"""Seconds between two looks: counters of the system advance by a hundredth of a second."""
_STALE_S = 30.0
"""What other programs took on average over a longer time says nothing about now."""
_IGNORED = 0.45
"""Processors' worth of other programs that are no reason to give one up. A program that wants a whole one gets half of
it while a thread of the model is there."""
log = logging.getLogger("tandem.threads")
log.addHandler(logging.NullHandler())


class GivingWay:
    """How many threads to compute with, as other programs come and go.

    Args:
        apply: Told the most threads to compute with, whenever that changes.
        n_threads: As many as are fastest on a machine that does nothing else.
        n_processors: Processors that this process may use.
        others: Seconds that other programs have run so far.
        clock: Seconds.
    """

    def __init__(
        self,
        apply: Callable[[int], None],
        n_threads: int,
        n_processors: int,
        others: Callable[[], float],
        clock: Callable[[], float],
    ) -> None:
        self._apply = apply
        self._most = n_threads
        self._n_processors = n_processors
        self._others = others
        self._clock = clock
        self.n_threads = n_threads
        self._looked, self._seen = clock(), others()

    def look(self) -> None:
        """Adapt to what other programs did since the last call; to be called in every round, and cheap in most."""
        now = self._clock()
        since = now - self._looked
        if since < SAMPLE_S:
            return
        seen = self._others()
        busy = (seen - self._seen) / since
        self._looked, self._seen = now, seen
        if since > _STALE_S:
            return
        wanted = max(1, min(self._most, self._n_processors - math.ceil(max(0.0, busy - _IGNORED))))
        # Half the way, so that two programs that both give way do not take turns at giving too much.
        step = wanted - self.n_threads
        chosen = self.n_threads + int(math.copysign(math.ceil(abs(step) / 2), step))
        if chosen != self.n_threads:
            log.info("other programs take %.1f of %d processors: %d threads", busy, self._n_processors, chosen)
            self.n_threads = chosen
            self._apply(chosen)
