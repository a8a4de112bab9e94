"""Measure the cost curve of a target and the cost of a drafted token."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from app.engine.auto.batch_timer import DRAFT_MODEL, BatchTimer
from app.engine.auto.cost_profile import MAX_BATCH, CostProfile
from app.engine.cache import TokenCache
from app.engine.draft_source import DraftSource
from app.engine.interfaces import Cancelled, Clock
from app.engine.types import MAX_DRAFT

QUICK_ORDER = (1, 2, 4, 8, 16, 32, 3, 6, 12, 5, 7, 9, 24, 17, 48, 33, MAX_DRAFT)
"""Batch sizes to measure, most important first: the small ones, and both sides of known steps of kernels."""
_OUTLINE = (DRAFT_MODEL, 2, 4, 8, 16, 32)
"""Batch sizes measured once before any is measured again. The costs of larger ones, which n-gram drafts need, are
extrapolated from the largest."""
ESSENTIAL = frozenset((DRAFT_MODEL, 2, 4, 8))
"""Batch sizes measured even beyond the budget.

In replays of first answers, automatic drafting was at most 3% slower without size 16, and up to 11% without 8, 2 or 4.
"""
_WITHIN_STEP = 3
"""Batch size that is essential if a second token is expensive. Kernels that process four at once make three cost more
than four, and with an interpolated cost drafts of two would lose.

In 40 replayed answers of 64 tokens without a draft model, on two such machines, 4 and 8 lost over 2% without it, and
2 and 1 with it.
"""
_STEEP_COST_OF_TWO = 1.5
"""Cost of a batch of two, in single tokens, from which a second token is expensive."""


class Measurement(BatchTimer):
    """Measure the cost curve of a target and the cost of a drafted token, on empty caches.

    All batch sizes take turns. In the last turn, only those are timed again whose samples disagree. If a single token
    takes long, the budget ends the measurement before that. The caches are left empty.

    Args:
        target: The target.
        draft: The draft model; None without one.
        text: Real text, at least as long as the largest batch; it selects the experts of a mixture.
        clock: Measures the batches.
        budget_ns: Nanoseconds for everything, once the weights are in memory; `ESSENTIAL` sizes are always measured.
        passes: How often to measure all batch sizes thoroughly.
        head: Draft layers that follow the target, in place of a draft model; None without any.

    Attributes:
        share: Finished share of the work or of the budget, whichever is greater.
    """

    def __init__(
        self,
        target: TokenCache,
        draft: TokenCache | None,
        text: Sequence[int],
        clock: Clock,
        budget_ns: int,
        *,
        passes: int = 1,
        head: DraftSource | None = None,
    ) -> None:
        super().__init__(target, draft, text, clock, budget_ns)
        self._head = head
        # No draft is longer than the target can roll back.
        largest = min(len(text), target.n_rollback + 1)
        has_draft = draft is not None
        outline = [size for size in _OUTLINE if (size or has_draft) and size <= largest]
        sizes = [DRAFT_MODEL] * has_draft + [size for size in QUICK_ORDER[1:] if size <= largest]
        self._turns = [*outline, *sizes * (passes + 2)]
        self._n_first, self._n_usual = len(outline) + len(sizes), len(self._turns) - len(sizes)
        self._n_done = self._spent_ns = 0
        self.share = 0.0
        # Nanoseconds of a drafted token, of a prompt token of the draft model, and of a draft's start
        self._draft_costs: tuple[float, float, float] | None = None
        self._context_ns: dict[int, float] = {}

    def run(self, cancelled: Cancelled) -> Generator[float, None, CostProfile]:
        """Measure what is missing; yield `share`.

        Raises `Interrupted` if cancelled between two batches; another call continues.
        """
        self.cancelled = cancelled
        caches = [cache for cache in (self.target, self.draft) if cache is not None]
        for cache in caches:
            yield from self.warm_up(cache, self.share)
        began = self.clock() - self._spent_ns
        if self._draft_costs is None:
            self._draft_costs = self._measure_drafts()
        for size in self._turns[self._n_done :]:
            left_ns = self.budget_ns - (self.clock() - began)
            if self._is_useful(size):
                n_runs = self.affordable_runs(size, left_ns)
                self.sample(size, n_runs or int(self._is_needed(size)))
            if self._n_done == self._n_first - 1 and self.fill_ns() < self.budget_ns - (self.clock() - began):
                self._context_ns = self.context_costs()
            self._n_done, self._spent_ns = self._n_done + 1, self.clock() - began
            self.share = max(self._n_done / len(self._turns), min(1.0, self._spent_ns / self.budget_ns))
            yield self.share
        for cache in caches:
            cache.rollback(0)
        return self._profile(self._draft_costs)

    def _is_needed(self, size: int) -> bool:
        """Return whether a size is measured even beyond the budget."""
        is_steep = size == _WITHIN_STEP and self.costs().get(2, 1.0) > _STEEP_COST_OF_TWO
        return (size in ESSENTIAL or is_steep) and not self.is_measured(size)

    def _is_useful(self, size: int) -> bool:
        return self._n_done < self._n_usual or not self.is_sure(size)

    def _measure_drafts(self) -> tuple[float, float, float]:
        if self._head is not None:
            per_token, start = self.head_costs(self._head)
            return per_token, 0.0, start
        return 0.0, self.prompt_ns(self.draft) if self.draft is not None else 0.0, 0.0

    def _profile(self, draft_costs: tuple[float, float, float]) -> CostProfile:
        draft_ns, draft_prompt_ns, draft_start_ns = draft_costs
        single_ns = self.single_ns
        costs = self.costs()
        batch_ns = {1: single_ns} | {size: single_ns * cost for size, cost in sorted(costs.items()) if size}
        if self._head is not None:
            # To catch up, the target reads again.
            draft_prompt_ns = min(ns / size for size, ns in batch_ns.items())
        return CostProfile(
            batch_ns,
            draft_ns=single_ns * costs[DRAFT_MODEL] if self.draft is not None else draft_ns,
            context_ns=self._context_ns,
            draft_prompt_ns=draft_prompt_ns,
            draft_start_ns=draft_start_ns,
            max_batch=min(MAX_BATCH, self.target.n_rollback + 1),
        )
