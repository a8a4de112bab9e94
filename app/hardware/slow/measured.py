"""What earlier answers have measured of a pair, and what drafting can bring at such costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app.engine.tuning.curve import CostModel
from app.engine.tuning.guard import best_round, impossibility
from app.engine.types import MAX_DRAFT

_SEEN = 64
"""Drafted tokens below which an acceptance is chance."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What earlier answers have measured of the pair on this machine.

    Attributes:
        costs: Of batches and drafted tokens.
        with_draft: Whether there is a draft model.
        least_ns: The least that a plain step ever took here, nanoseconds.
        accepted: Of the tokens that the draft model proposed and the target judged; fading, so no whole number.
        judged: How many those were.
    """

    costs: CostModel
    with_draft: bool = True
    least_ns: float = 0.0
    accepted: float = 0.0
    judged: float = 0.0

    @property
    def rows(self) -> Mapping[int, float]:
        """Nanoseconds of a batch by its width, of those that were measured; width 1 is a plain step."""
        return self.costs.rows_at(0)

    @property
    def plain_ns(self) -> float:
        """Nanoseconds of a plain step."""
        return self.batch_ns(1)

    @property
    def draft_ns(self) -> float:
        """Nanoseconds of a drafted token; 0 without a draft model."""
        return self.costs.draft_ns(0) if self.with_draft else 0.0

    @property
    def acceptance(self) -> float | None:
        """Share of drafted tokens that were accepted; None before enough were judged."""
        return self.accepted / self.judged if self.judged >= _SEEN else None

    @property
    def is_off(self) -> bool:
        """Whether automatic drafting leaves the draft model out: even nearly perfect drafts are not worth trying."""
        return self.with_draft and bool(impossibility(self.costs, 0, MAX_DRAFT))

    def batch_ns(self, width: int) -> float:
        """Nanoseconds of a batch; between two measured widths on the line."""
        return self.costs.target_ns(width, 0)

    def best_speed(self, acceptance: float, draft_ns: float) -> float:
        """Speed against plain decoding with the best draft length; 1 where drafting loses.

        Args:
            acceptance: How often each drafted token is right, those before it being right.
            draft_ns: Nanoseconds of a drafted token.
        """
        return max(1.0, best_round(self.costs, 0, MAX_DRAFT, draft_ns, acceptance)[0])
