"""Speeds of a pair that were measured in earlier answers on this machine."""

from __future__ import annotations

from dataclasses import dataclass

from app.engine.auto.curve import CostModel
from app.engine.auto.rule import best_length, drafter_off
from app.engine.drafting_report import Speedup, pair_drafting, rate_range
from app.engine.sources import RETRIED, Source
from app.engine.types import MAX_DRAFT


@dataclass(frozen=True, slots=True)
class Measured:
    """Measurements of earlier answers of a pair on this machine.

    Attributes:
        acceptance: Accepted over its drafted tokens, once enough were judged.
        speedup: Speedup of benchmarks, or else of recent answers; None without enough data.
        has_lost: Whether automatic drafting turned the drafter off after trying it.
        quiet_ns: Shortest time of a token without drafts, in nanoseconds; 0 if only the present time is known.
    """

    costs: CostModel
    drafter: Source | None = Source.MODEL
    acceptance: float | None = None
    speedup: Speedup | None = None
    has_lost: bool = False
    quiet_ns: float = 0.0

    @property
    def tokens_per_second(self) -> float:
        """Speed without drafts while no other program was busy."""
        return 1e9 / (min(self.quiet_ns, self.plain_ns) or self.plain_ns)

    @property
    def speed(self) -> str:
        """Range from the speed of the latest answers to the undisturbed speed, as text."""
        return rate_range(1e9 / self.plain_ns, self.tokens_per_second)

    @property
    def plain_ns(self) -> float:
        """Nanoseconds of a token without drafts."""
        return self.batch_ns(1)

    @property
    def draft_ns(self) -> float:
        """Nanoseconds of a drafted token; 0 if there is no drafter."""
        return self.costs.draft_ns(0) if self.drafter is not None else 0.0

    @property
    def draft_cost(self) -> float:
        """Time of a drafted token divided by the time of a token without drafts."""
        return self.draft_ns / self.plain_ns

    @property
    def off(self) -> str | None:
        """Why the drafter is off, if it is."""
        if self.drafter is None:
            return None
        return drafter_off(self.costs, self.drafter) or (self.drafter.turned_off(RETRIED) if self.has_lost else None)

    @property
    def drafting(self) -> str | None:
        """Speedup, or why there is none, as a clause, if known."""
        return pair_drafting(self.speedup, self.off)

    def batch_ns(self, width: int) -> float:
        """Return the nanoseconds of a batch, interpolated between measured widths."""
        return self.costs.target_ns(width, 0)

    def best_speedup(self, acceptance: float, draft_ns: float) -> float:
        """Return the speedup with the best draft length; 1 if drafting loses."""
        return max(1.0, best_length(self.costs, 0, MAX_DRAFT, draft_ns, acceptance)[0])
