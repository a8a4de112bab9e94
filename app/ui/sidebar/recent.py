"""The last rounds of a running answer: how fast it goes now, as far as a few rounds can tell."""

from __future__ import annotations

from collections import deque

from app.engine.stats import GenerationStats
from app.ui.text import sparkline

_WINDOW_NS = 2_000_000_000
_WINDOW_ROUNDS = 16
"""A round brings one token or ten: over less than this a rate says more about luck than about the pair."""
_BAR_NS = 500_000_000
_BAR_ROUNDS = 4
_BARS = 24


class Recent:
    """Rates over the last seconds of the engine's own clock, so that when the screen looks changes nothing."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Another answer."""
        # The first token comes out of the prompt, and time counts from there.
        first = GenerationStats(predicted_n=1)
        self._seen: deque[GenerationStats] = deque([first])
        self._bar_from = first
        self.rates: deque[float] = deque(maxlen=_BARS)
        """Tokens per second of successive stretches, oldest first."""

    def observe(self, stats: GenerationStats) -> None:
        """Take the counters after a round."""
        if stats.predicted_ns <= self._seen[-1].predicted_ns:
            return
        self._seen.append(stats)
        while len(self._seen) > 2 and _is_long(self._seen[1], stats, _WINDOW_NS, _WINDOW_ROUNDS):
            self._seen.popleft()
        if _is_long(self._bar_from, stats, _BAR_NS, _BAR_ROUNDS):
            self.rates.append(_rate(self._bar_from, stats))
            self._bar_from = stats

    def bars(self, most: int) -> str:
        """The rates as a sparkline of so many cells at most; one bar alone would say nothing."""
        return sparkline(list(self.rates)[-most:]) if len(self.rates) > 1 and most > 0 else ""

    @property
    def speed(self) -> float | None:
        """Tokens per second; None before there is enough to say."""
        since, now = self._seen[0], self._seen[-1]
        return _rate(since, now) if _is_long(since, now, _BAR_NS, _BAR_ROUNDS) else None

    @property
    def acceptance(self) -> float | None:
        """Accepted drafted tokens over drafted ones; None where nothing was drafted."""
        since, now = self._seen[0], self._seen[-1]
        drafted = now.draft_n - since.draft_n
        return (now.draft_n_accepted - since.draft_n_accepted) / drafted if drafted else None


def _is_long(since: GenerationStats, now: GenerationStats, least_ns: int, least_rounds: int) -> bool:
    long = now.predicted_ns - since.predicted_ns >= least_ns
    return long and now.verify_steps - since.verify_steps >= least_rounds


def _rate(since: GenerationStats, now: GenerationStats) -> float:
    return (now.predicted_n - since.predicted_n) * 1e9 / (now.predicted_ns - since.predicted_ns)
