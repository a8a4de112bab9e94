"""How often to draw while the models work."""

from __future__ import annotations

import time

FASTEST_S = 0.2
SLOWEST_S = 1.0
_SHARE = 0.016
"""Drawing takes the processor from the models, and they wait for the slowest of their threads: once it needs more than
this of a core, it is done less often. Other threads read and write the terminal, which takes another half percent."""


class Pace:
    """Spaces drawing by what it costs. Belongs to the thread that draws."""

    def __init__(self) -> None:
        self._spent_s = time.thread_time()

    def start(self) -> None:
        """Forget what was spent while nothing was to be drawn."""
        self._spent_s = time.thread_time()

    def next_delay(self) -> float:
        """Seconds until the next drawing, from the processor time since the last call."""
        now = time.thread_time()
        spent, self._spent_s = now - self._spent_s, now
        return min(max(FASTEST_S, spent / _SHARE), SLOWEST_S)
