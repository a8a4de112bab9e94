"""What earlier answers have measured of a pair, and what drafting can bring at such costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app.engine.tuning.curve import MAX_ROWS, expand

_SEEN = 64
"""Drafted tokens below which an acceptance is chance."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What earlier answers have measured of the pair on this machine.

    Attributes:
        rows: Nanoseconds of a batch by its width; width 1 is a plain step.
        draft_ns: Nanoseconds of a drafted token; 0 without a draft model.
        least_ns: The least that a plain step ever took here.
        accepted: Of the tokens that the draft model proposed and the target judged; fading, so no whole number.
        judged: How many those were.
    """

    rows: Mapping[int, float]
    draft_ns: float = 0.0
    least_ns: float = 0.0
    accepted: float = 0.0
    judged: float = 0.0

    @property
    def plain_ns(self) -> float:
        return self.rows[1]

    @property
    def acceptance(self) -> float | None:
        """Share of drafted tokens that were accepted; None before enough were judged."""
        return self.accepted / self.judged if self.judged >= _SEEN else None

    def batch_ns(self, width: int) -> float:
        """Nanoseconds of a batch; between two measured widths on the line."""
        return expand(self.rows, MAX_ROWS)[width]

    def best_speed(self, acceptance: float, draft_ns: float) -> float:
        """Speed against plain decoding with the best draft length, each token accepted with the same probability.

        (1 + a + ... + a^n) * T(1) / (T(n + 1) + n * draft), at its highest over n; 1 where drafting loses.
        """
        costs = expand(self.rows, MAX_ROWS)
        best = tokens = 1.0
        for n in range(1, max(self.rows)):
            tokens += acceptance**n
            best = max(best, tokens * self.plain_ns / (costs[n + 1] + n * draft_ns))
        return best
