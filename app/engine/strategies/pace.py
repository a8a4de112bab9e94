"""How fast an answer goes: the price that the rule needs, and the verdict that people see."""

from __future__ import annotations

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
        self._spent_ns += took.counted_ns + took.stalled_ns + took.reading_ns
        self._plain_ns += (n_tokens * plain_ns if drafted else took.counted_ns) + took.stalled_ns
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
