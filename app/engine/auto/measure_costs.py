"""Measure the cost curve of a target and the cost of a drafted token, or estimate them from a first answer."""

from __future__ import annotations

import statistics
from collections.abc import Generator, Sequence

from app.engine.auto.batch_timer import DRAFT_MODEL, BatchTimer
from app.engine.auto.cost_profile import MAX_BATCH, CostProfile
from app.engine.cache import TokenCache
from app.engine.draft_source import DraftSource
from app.engine.events import Step
from app.engine.interfaces import Cancelled, Clock
from app.engine.types import MAX_DRAFT

QUICK_ORDER = (1, 2, 4, 8, 16, 32, 3, 6, 12, 5, 7, 9, 24, 17, 48, 33, MAX_DRAFT)
"""Batch sizes to measure, most important first: small sizes, and both sides of known kernel steps."""
_OUTLINE_SIZES = (DRAFT_MODEL, 2, 4, 8, 16, 32)
"""Batch sizes measured once before any size is measured again. The costs of larger batches, which n-gram drafts need,
are extrapolated from the largest size."""
ESSENTIAL = frozenset((DRAFT_MODEL, 2, 4, 8))
"""Batch sizes measured even beyond the budget.

In replays of first answers, automatic drafting was at most 3% slower without size 16, and up to 11% without 8, 2 or 4.
"""
_SIZE_WITHIN_STEP = 3
"""Batch size that is essential if a second token is expensive. Kernels that process four tokens at once make three cost
more than four, and with an interpolated cost drafts of two would lose.

In 40 replayed answers of 64 tokens without a draft model, on two such machines, 4 and 8 lost over 2% without it, and
2 and 1 with it."""
_STEEP_COST_OF_TWO = 1.5
"""Cost of a batch of two, in single tokens, above which a second token is expensive."""
LEARNING = "the first tokens show what this pair costs"
"""Reason why the first tokens have no draft, as a clause."""
_PROBE_SIZES = (8, 2)
"""Batch sizes to time. Four tokens cost about as much as interpolation predicts; in a mixture of experts the second
token costs most. The probes delay the first answer by two or three single tokens."""
_N_SINGLES = 3
"""Single-token times needed for an estimate; the last token of the prompt gives one."""
_USUAL_SLOPE = 0.25
"""Cost of a further token in a batch, in single tokens, if the prompt was too short to show it; typical of a CPU."""
_LEAST_SLOPE = 0.01
_MIN_DRAFT_COST = 0.1
"""Lowest cost of a drafted token, in single tokens: a small model on a GPU takes longer than its size suggests."""


class Measurement(BatchTimer):
    """Measure the cost curve of a target and the cost of a drafted token, on empty caches.

    All batch sizes take turns. The last turn repeats only sizes whose samples disagree. If a single token takes long,
    the budget ends the measurement earlier. The caches are left empty.

    Args:
        text: Real text, at least as long as the largest batch; it selects the experts of a mixture.
        budget_ns: Time for everything, once the weights are in memory; `ESSENTIAL` sizes are always measured.
        passes: How often to measure all batch sizes thoroughly.
        head: Draft layers that follow the target, instead of a draft model.

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
        outline = [size for size in _OUTLINE_SIZES if (size or has_draft) and size <= largest]
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

        Raises `Interrupted` if canceled between two batches; another call continues.
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
        is_steep = size == _SIZE_WITHIN_STEP and self.costs().get(2, 1.0) > _STEEP_COST_OF_TWO
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
            # To catch up, the target reads the text again.
            draft_prompt_ns = min(ns / size for size, ns in batch_ns.items())
        return CostProfile(
            batch_ns,
            draft_ns=single_ns * costs[DRAFT_MODEL] if self.draft is not None else draft_ns,
            context_ns=self._context_ns,
            draft_prompt_ns=draft_prompt_ns,
            draft_start_ns=draft_start_ns,
            max_batch=min(MAX_BATCH, self.target.n_rollback + 1),
        )


class FirstCosts:
    """Estimate the costs of a pair that was never measured, during an answer.

    No prompt waits for a measurement. The end of the prompt is read in batches as small as in verify steps, so
    their costs are measured before a draft could lose; the first steps show the cost of a single token. Every step with
    a draft corrects both, and `app.engine.auto.guard` limits the loss from a wrong estimate. A measurement while the
    engine is idle replaces the estimate.

    In replays of first answers of 96 tokens on two cores with a 4-bit target, costs estimated from the speed of the
    prompt lost up to 13%; these estimates lose at most 1% and gain as much on code.

    Args:
        draft_share: Cost of a token of the draft model, as a share of the target's; 0 if there is no draft model.

    Attributes:
        probes: Sizes of the batches that read the end of the prompt, to be timed.
    """

    def __init__(self, max_batch: int, draft_share: float) -> None:
        self._max_batch = min(MAX_BATCH, max_batch)
        self._draft_share = draft_share
        self._single_ns: list[int] = []
        self._batch_ns: dict[int, float] = {}
        self.probes = (*(size for size in _PROBE_SIZES if size <= self._max_batch), 1)

    def observe_probe(self, size: int, ns: int) -> None:
        """Record the time of a batch at the end of the prompt."""
        if size > 1:
            self._batch_ns[size] = float(ns)
        else:
            self._single_ns.append(max(1, ns))

    def observe(self, step: Step) -> bool:
        """Record the time of a step; return whether `profile` can be called."""
        if step.stats.verify_steps and not step.draft:
            self._single_ns.append(max(1, step.work_ns))
        return len(self._single_ns) >= _N_SINGLES

    def profile(self) -> CostProfile:
        single = float(statistics.median_low(self._single_ns))
        batch_ns = {1: single} | {size: max(single, ns) for size, ns in self._batch_ns.items()}
        largest, slope = max(batch_ns), _USUAL_SLOPE * single
        if largest > 1:
            slope = max(_LEAST_SLOPE * single, (batch_ns[largest] - single) / (largest - 1))
        if self._max_batch > largest:
            batch_ns[self._max_batch] = batch_ns[largest] + slope * (self._max_batch - largest)
        return CostProfile(
            batch_ns,
            draft_ns=single * max(_MIN_DRAFT_COST, self._draft_share) if self._draft_share else 0.0,
            draft_prompt_ns=self._draft_share * slope,
            max_batch=self._max_batch,
        )
