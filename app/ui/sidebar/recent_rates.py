"""Speed and acceptance of the last steps of a running answer."""

from __future__ import annotations

from collections import deque

from app.engine.stats import GenerationStats
from app.ui.text import sparkline

_WINDOW_NS = 2_000_000_000
_WINDOW_STEPS = 16
"""A step yields one token or ten; a rate over fewer steps is noise."""
_BAR_NS = 500_000_000
_BAR_STEPS = 4
_BARS = 24


class RecentRates:
    """Rates over the last seconds of generation time, independent of the screen's refresh."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        # The prompt yields the first token; its time does not count.
        first = GenerationStats(predicted_n=1)
        self._seen: deque[GenerationStats] = deque([first])
        self._bar_from = first
        self.rates: deque[float] = deque(maxlen=_BARS)
        """Tokens per second of successive intervals, oldest first."""

    def observe(self, stats: GenerationStats) -> None:
        """Take the counters after a step."""
        if stats.predicted_ns <= self._seen[-1].predicted_ns:
            return
        self._seen.append(stats)
        while len(self._seen) > 2 and _spans(self._seen[1], stats, _WINDOW_NS, _WINDOW_STEPS):
            self._seen.popleft()
        if _spans(self._bar_from, stats, _BAR_NS, _BAR_STEPS):
            self.rates.append(_rate(self._bar_from, stats))
            self._bar_from = stats

    def bars(self, most: int) -> str:
        """Return a sparkline of at most `most` cells; "" before two bars."""
        return sparkline(list(self.rates)[-most:]) if len(self.rates) > 1 and most > 0 else ""

    @property
    def speed(self) -> float | None:
        """Tokens per second; None before there are enough steps."""
        since, now = self._seen[0], self._seen[-1]
        return _rate(since, now) if _spans(since, now, _BAR_NS, _BAR_STEPS) else None

    @property
    def acceptance(self) -> float | None:
        """Accepted over drafted tokens; None if nothing was drafted."""
        since, now = self._seen[0], self._seen[-1]
        drafted = now.draft_n - since.draft_n
        return (now.draft_n_accepted - since.draft_n_accepted) / drafted if drafted else None


def _spans(since: GenerationStats, now: GenerationStats, least_ns: int, least_steps: int) -> bool:
    long = now.predicted_ns - since.predicted_ns >= least_ns
    return long and now.verify_steps - since.verify_steps >= least_steps


def _rate(since: GenerationStats, now: GenerationStats) -> float:
    return (now.predicted_n - since.predicted_n) * 1e9 / (now.predicted_ns - since.predicted_ns)
