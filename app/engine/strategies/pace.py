"""How fast an answer goes: the price that the rule needs, and the verdict that people see."""

from __future__ import annotations

import math
from dataclasses import dataclass

from app.engine.tuning.stalls import Took

_RATE_FORGETTING = 0.985
"""A token. By rounds, of which a copied text has few, what was fast would be a standard long after it ended."""
_RATE_PRIOR = 10.0
_ENOUGH = 8
"""Rounds after which an answer's speed can be told from noise."""
_LEAST, _MANY = 3, 32
"""Fewer are enough where they brought so many tokens: long drafts that hold end a short answer before the eighth."""
_TIE = 0.03
"""Within this share of plain decoding it is called break-even."""
_SURE = 2.0
"""Standard errors that a verdict must be away from where another one begins, while there is more to come."""


@dataclass(slots=True)
class Pace:
    """Tokens and time of one answer, lately and in all. Times are nanoseconds.

    What is remembered for the price is told in plain steps of its own moment: a machine that slows down for a while
    does so for drafts and plain steps alike, and must not make the one look worse than the other.

    Attributes:
        n_rounds: Rounds so far.
    """

    n_rounds: int = 0
    _n_tokens: int = 0
    _tokens: float = 0.0
    _steps: float = 0.0
    _spent_ns: float = 0.0
    _plain_ns: float = 0.0
    _ready_ns: float = 0.0
    _squares: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Sums over rounds: plain decoding's time squared, times the time spent, and that squared."""

    def rate(self, plain_ns: float) -> float:
        """Tokens per nanosecond lately; never below plain decoding, which is always to be had."""
        return max(1.0, (self._tokens + _RATE_PRIOR) / (self._steps + _RATE_PRIOR)) / plain_ns

    def went_before(self, plain_ns: int) -> None:
        """Book plain decoding of the same answer that nobody watched: its time is the one and the other."""
        self._spent_ns += plain_ns
        self._plain_ns += plain_ns

    def get_ready(self, ns: int) -> None:
        """Book what the sources took to be ready for a text, which plain decoding does without."""
        self._spent_ns += ns
        self._ready_ns += ns

    def observe(self, n_tokens: int, took: Took, plain_ns: float, *, drafted: bool) -> None:
        """Book a round.

        Args:
            n_tokens: Tokens it gave.
            took: The time it took.
            plain_ns: What one token of plain decoding takes here.
            drafted: Whether anything was drafted; a round without is plain decoding, whatever was expected of one.
        """
        kept = _RATE_FORGETTING**n_tokens
        self._tokens = kept * self._tokens + n_tokens
        self._steps = kept * self._steps + took.counted_ns / plain_ns
        spent = took.counted_ns + took.stalled_ns + took.reading_ns
        plain = (n_tokens * plain_ns if drafted else took.counted_ns) + took.stalled_ns
        self._spent_ns += spent
        self._plain_ns += plain
        plain2, both, spent2 = self._squares
        self._squares = plain2 + plain * plain, both + plain * spent, spent2 + spent * spent
        self.n_rounds += 1
        self._n_tokens += n_tokens

    @property
    def speedup(self) -> float | None:
        """Time of plain decoding over time spent; None before there is enough to say."""
        enough = self.n_rounds >= _ENOUGH or (self.n_rounds >= _LEAST and self._n_tokens >= _MANY)
        return self._plain_ns / self._spent_ns if enough else None

    @property
    def verdict(self) -> str:
        """ "winning", "losing" or "break-even"; "" before there is enough to say."""
        speedup = self.speedup
        if speedup is None:
            return ""
        return "winning" if speedup > 1 + _TIE else "losing" if speedup < 1 - _TIE else "break-even"

    @property
    def holds(self) -> bool:
        """Whether the verdict will hold if the answer goes on as it did, which few rounds cannot tell from luck.

        The speed-up is a ratio of sums over rounds, so its variance is that of what single rounds leave of it (the
        delta method). What the sources took to be ready is more of a short answer than of what that becomes: it makes
        nothing lose that the rounds do not.
        """
        if (speedup := self.speedup) is None:
            return False
        plain2, both, spent2 = self._squares
        error = math.sqrt(max(0.0, plain2 - 2 * speedup * both + speedup * speedup * spent2)) / self._spent_ns
        low, high = speedup - _SURE * error, self._plain_ns / (self._spent_ns - self._ready_ns) + _SURE * error
        return low > 1 + _TIE or high < 1 - _TIE or (low >= 1 - _TIE and high <= 1 + _TIE)
