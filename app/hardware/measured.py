"""Measurements of earlier answers with a pair, and the speedup possible at such costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app.engine.auto.curve import CostModel
from app.engine.auto.guard import best_step
from app.engine.drafting_report import RETRIED, Speedup, draft_model_off, pair_drafting
from app.engine.types import MAX_DRAFT

_SEEN = 64
"""Drafted tokens below which an acceptance is chance."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Measurements of earlier answers with the pair on this machine.

    Attributes:
        costs: Of batches and drafted tokens.
        with_draft: Whether there is a draft model.
        least_ns: The least that a plain step ever took here, nanoseconds.
        accepted: Of the tokens that the draft model proposed and the target judged; fading, so no whole number.
        judged: How many those were.
        speedup: Speedup of benchmarks here or else of recent answers; None without enough data.
        has_lost: Whether automatic drafting turned the draft model off after trying it.
    """

    costs: CostModel
    with_draft: bool = True
    least_ns: float = 0.0
    accepted: float = 0.0
    judged: float = 0.0
    speedup: Speedup | None = None
    has_lost: bool = False

    @property
    def rows(self) -> Mapping[int, float]:
        """Nanoseconds of a batch by its width, of those that were measured; width 1 is a plain step."""
        return self.costs.rows_at(0)

    @property
    def tokens_per_second(self) -> float:
        """Tokens per second without drafts."""
        return 1e9 / self.plain_ns

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
    def off(self) -> str:
        """The reason why the draft model is off; "" if it is on or absent."""
        if not self.with_draft:
            return ""
        return draft_model_off(self.costs) or (RETRIED if self.has_lost else "")

    @property
    def has_helped(self) -> bool:
        """Benchmarks or answers have shown a speedup."""
        return self.speedup is not None and self.speedup.helps

    @property
    def cannot_pay(self) -> bool:
        """Even a perfect draft gives no speedup at these costs."""
        return self.with_draft and not self.has_helped and bool(draft_model_off(self.costs))

    @property
    def drafting(self) -> str:
        """Speedup, or why there is none, as a clause; "" if not known yet."""
        return pair_drafting(self.speedup, self.off)

    def batch_ns(self, width: int) -> float:
        """Nanoseconds of a batch; between two measured widths on the line."""
        return self.costs.target_ns(width, 0)

    def best_speed(self, acceptance: float, draft_ns: float) -> float:
        """Speed against decoding without drafts with the best draft length; 1 where drafting loses.

        Args:
            acceptance: How often each drafted token is right, those before it being right.
            draft_ns: Nanoseconds of a drafted token.
        """
        return max(1.0, best_step(self.costs, 0, MAX_DRAFT, draft_ns, acceptance)[0])
