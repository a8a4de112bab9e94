"""Measurements of earlier answers with a pair, and the speedup possible at such costs."""

from __future__ import annotations

from dataclasses import dataclass

from app.engine.auto.curve import CostModel
from app.engine.auto.rule import best_length
from app.engine.drafting_report import RETRIED, Speedup, draft_model_off, pair_drafting
from app.engine.types import MAX_DRAFT

_MIN_JUDGED = 64
"""Drafted tokens below which an acceptance is chance."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Measurements of earlier answers with a pair on this machine.

    Attributes:
        costs: Costs of batches and drafted tokens.
        with_draft: The pair has a draft model.
        accepted: Accepted tokens of those in `judged`; a fading sum.
        judged: Tokens of the draft model that the target verified; a fading sum.
        speedup: Speedup of benchmarks here or else of recent answers; None without enough data.
        has_lost: Automatic drafting turned the draft model off after trying it.
    """

    costs: CostModel
    with_draft: bool = True
    accepted: float = 0.0
    judged: float = 0.0
    speedup: Speedup | None = None
    has_lost: bool = False

    @property
    def tokens_per_second(self) -> float:
        """Speed without drafts."""
        return 1e9 / self.plain_ns

    @property
    def plain_ns(self) -> float:
        """Nanoseconds of a token without drafts."""
        return self.batch_ns(1)

    @property
    def draft_ns(self) -> float:
        """Nanoseconds of a drafted token; 0 without a draft model."""
        return self.costs.draft_ns(0) if self.with_draft else 0.0

    @property
    def draft_cost(self) -> float:
        """Time of a drafted token over that of a token without drafts."""
        return self.draft_ns / self.plain_ns

    @property
    def acceptance(self) -> float | None:
        """Accepted over drafted tokens; None before enough were judged."""
        return self.accepted / self.judged if self.judged >= _MIN_JUDGED else None

    @property
    def off(self) -> str:
        """Why the draft model is off; "" if it is on or absent."""
        if not self.with_draft:
            return ""
        return draft_model_off(self.costs) or (RETRIED if self.has_lost else "")

    @property
    def drafting(self) -> str:
        """Speedup, or why there is none, as a clause; "" if unknown."""
        return pair_drafting(self.speedup, self.off)

    def batch_ns(self, width: int) -> float:
        """Return the nanoseconds of a batch, interpolated between measured widths."""
        return self.costs.target_ns(width, 0)

    def best_speedup(self, acceptance: float, draft_ns: float) -> float:
        """Return the speedup with the best draft length; 1 where drafting loses."""
        return max(1.0, best_length(self.costs, 0, MAX_DRAFT, draft_ns, acceptance)[0])
