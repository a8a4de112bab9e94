"""Measure the cost curve of a target and the cost of a drafted token, or estimate them in the first answer."""

from __future__ import annotations

import statistics
from collections.abc import Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from app.engine.auto.batch_timer import COMFORT, BatchTimer, SlowedError
from app.engine.auto.cost_profile import MAX_BATCH, CostProfile
from app.engine.cache import TokenCache
from app.engine.draft_source import DraftSource
from app.engine.events import Step
from app.engine.interfaces import Cancelled, Clock
from app.engine.types import MAX_DRAFT

QUICK_ORDER = (1, 2, 4, 8, 16, 32, 3, 6, 12, 5, 7, 9, 24, 17, 48, 33, MAX_DRAFT)
"""Batch sizes to measure, most important first: the small ones, and both sides of known steps of kernels."""
_WITHIN_STEP = 3
"""Batch size measured early if a second token is expensive. Kernels that process four at once make three cost more
than four, and with an interpolated cost drafts of two would lose.

In 40 replayed answers of 64 tokens without a draft model, on two such machines, 4 and 8 lost over 2% without it, and
2 and 1 with it.
"""
_STEEP_COST_OF_TWO = 1.5
"""Cost of a batch of two, in single tokens, from which a second token is expensive."""
_OUTLINE_SIZES = (2, 4, 8, _WITHIN_STEP, 16, 32)
"""Batch sizes measured once before any is measured again. The costs of larger ones, which n-gram drafts need, are
extrapolated from the largest."""
ESSENTIAL = frozenset((1, 2, 4, 8))
"""Batch sizes measured even beyond the budget.

In replays of first answers, automatic drafting was at most 3% slower without size 16, and up to 11% without 8, 2 or 4.
"""
_MAX_ATTEMPTS = 3
"""Attempts; the last one accepts a slow machine."""
LEARNING = "the first tokens show what this pair costs"
"""Reason why the first tokens have no draft, as a clause."""
_PROBES = (8, 2)
"""Batch sizes to time. Four tokens cost about what interpolation between them predicts; in a mixture of experts the
second token costs most. The probes delay the first answer by two or three single tokens."""
_SINGLES = 3
"""Times of single tokens before an estimate; the last token of the prompt gives one."""
_USUAL_SLOPE = 0.25
"""Cost of a further token in a batch, in single tokens, if the prompt was too short to show it; typical of a CPU."""
_LEAST_SLOPE = 0.01
_LEAST_DRAFT = 0.1
"""Lowest cost of a drafted token, in single tokens: a small model on a GPU takes longer than its size says."""


@dataclass(slots=True)
class PartialMeasurement:
    """The finished pieces of a measurement, from which an interrupted one continues.

    Attributes:
        shares: Costs of each batch size, in single tokens.
        n_done: Measured batch sizes; a repeated one counts again.
        share: Finished share of the work or of the budget.
        drafts: Cost of a drafted token, of a prompt token of the draft model, and of a draft's start, in single tokens.
        context: Costs of a cached token by batch size, in single tokens.
        spent_ns: Nanoseconds of the finished pieces.
        n_slowed: Attempts that other programs slowed down.
    """

    shares: dict[int, list[float]] = field(default_factory=dict)
    n_done: int = 0
    share: float = 0.0
    drafts: tuple[float, float, float] | None = None
    context: dict[int, float] = field(default_factory=dict)
    spent_ns: int = 0
    n_slowed: int = 0

    def begin_again(self) -> None:
        """Forget everything after an attempt that was slowed down."""
        self.shares, self.context, self.drafts = {}, {}, None
        self.n_done, self.share, self.spent_ns = 0, 0.0, 0
        self.n_slowed += 1


def measure_costs(
    target: TokenCache,
    draft: TokenCache | None,
    text: Sequence[int],
    clock: Clock,
    *,
    budget_ns: int,
    cancelled: Cancelled = lambda: False,
    passes: int = 1,
    head: DraftSource | None = None,
    pieces: PartialMeasurement | None = None,
) -> Generator[float, None, CostProfile]:
    """Measure the cost curve of a target and the cost of a drafted token, on empty caches.

    Costs are ratios: each batch size is timed right after single tokens, because the speed of a shared machine changes
    within a second by more than the steps of the curve. Each batch runs twice and the faster run counts: the first one
    includes the change of size. If a single token takes long, little is repeated. The caches are left empty.

    Args:
        text: Real text, at least as long as the largest batch; it selects the experts of a mixture.
        budget_ns: Nanoseconds for everything, once the weights are in memory; `ESSENTIAL` sizes are always measured.
            If other programs slow it down, the measurement starts again, at most twice.
        passes: How often to measure all batch sizes.
        head: Draft layers that follow the target, in place of a draft model; None without any.
        pieces: Partial results of an interrupted measurement with the same arguments; updated in place.

    Yields the finished share of the work or of the budget, whichever is greater. Raises `Interrupted` if cancelled
    between two batches; the finished pieces stay in `pieces`.
    """
    # No draft is longer than the target can roll back.
    largest = min(len(text), target.n_rollback + 1)
    pieces = pieces if pieces is not None else PartialMeasurement()
    while True:
        strict = pieces.n_slowed < _MAX_ATTEMPTS - 1
        timer = BatchTimer(target, text, clock, budget_ns, cancelled, pieces.shares, strict=strict)
        with suppress(SlowedError):
            return (yield from _measured(timer, target, draft, largest, passes, head, pieces))
        pieces.begin_again()


def _measured(
    timer: BatchTimer,
    target: TokenCache,
    draft: TokenCache | None,
    largest: int,
    passes: int,
    head: DraftSource | None,
    pieces: PartialMeasurement,
) -> Generator[float, None, CostProfile]:
    """Measure what is not in `pieces` once; raise `SlowedError` if another attempt is worthwhile."""
    single_ns = yield from timer.warm_up(target, pieces.share)
    if draft is not None and pieces.drafts is None:
        yield from timer.warm_up(draft, pieces.share)
    timer.start(single_ns, largest, pieces.spent_ns)
    budget_ns = timer.budget_ns
    if pieces.drafts is None:
        pieces.drafts = _draft_shares(timer, draft, head)
    draft_share, draft_prompt_share, draft_start_share = pieces.drafts
    outline = [size for size in _OUTLINE_SIZES if size <= largest]
    sizes = outline + [size for size in QUICK_ORDER[1:] if size <= largest]
    again = [size for size in QUICK_ORDER[1:] * (passes - 1) if size <= largest]
    essential = ESSENTIAL & set(sizes)
    for done, size in list(enumerate((*sizes, *again)))[pieces.n_done :]:
        spent = timer.spent_ns
        times = _times(2 * timer.least(size), spent, budget_ns)
        is_needed = size in essential and size not in timer.shares
        fits = spent + timer.least(size) <= budget_ns
        waits = size == _WITHIN_STEP and done < len(outline) and timer.costs().get(2, 1.0) <= _STEEP_COST_OF_TWO
        if is_needed or (fits and not waits and (times or size not in timer.shares)):
            once = size in outline and (done < len(outline) or size in timer.shares)
            timer.measure(size, times=min(times, 1) if once else times)
            if timer.is_implausible(size):
                timer.measure(size, times=1)
        if done == len(sizes) - 1 and timer.fill_cost() < budget_ns - timer.spent_ns:
            pieces.context = timer.context_costs()
        pieces.n_done, pieces.spent_ns = done + 1, timer.spent_ns
        pieces.share = max(pieces.n_done / (len(sizes) + len(again)), min(1.0, pieces.spent_ns / budget_ns))
        yield pieces.share
    timer.recheck_single()
    target.rollback(0)
    single_ns = statistics.median(timer.singles)
    if head is not None:
        # To catch up, the target reads again.
        draft_prompt_share = min((cost / size for size, cost in timer.costs().items()), default=1.0)
    return CostProfile(
        batch_ns={1: single_ns} | {size: single_ns * share for size, share in sorted(timer.costs().items())},
        draft_ns=single_ns * draft_share,
        context_ns={size: single_ns * share for size, share in pieces.context.items()},
        draft_prompt_ns=single_ns * draft_prompt_share,
        draft_start_ns=single_ns * draft_start_share,
        max_batch=min(MAX_BATCH, target.n_rollback + 1),
    )


def _draft_shares(timer: BatchTimer, draft: TokenCache | None, head: DraftSource | None) -> tuple[float, float, float]:
    """Return the cost of a drafted token, of a prompt token, and of a draft's start, in single tokens of the target."""
    if head is not None:
        per_token, start = timer.head_shares(head)
        return per_token, 0.0, start
    return (*timer.draft_shares(draft), 0.0) if draft is not None else (0.0, 0.0, 0.0)


def _times(each: float, spent: float, budget: float) -> int:
    """Return how often to measure a batch size: twice while there is time; 0 is a single run."""
    if spent > budget or each > COMFORT * budget:
        return 0
    return 1 if spent > budget / 2 or 2 * each > COMFORT * budget else 2


class FirstCosts:
    """Estimate the costs of a pair that was never measured, from the answer that is being written.

    No prompt waits for a measurement. The end of the prompt is read in batches as small as those that verify drafts, so
    that their costs are measured before a draft could lose; the first steps show the cost of a single token. Every step
    with a draft corrects both, and `app.engine.auto.guard` limits the loss from a wrong estimate. A measurement while
    nothing is asked replaces the estimate.

    In replays of first answers of 96 tokens on two cores with a 4-bit target, costs estimated from the speed of the
    prompt lost up to 13%; these estimates lose at most 1% and gain as much on code.

    Args:
        max_batch: Largest batch that the target can roll back.
        draft_share: Cost of a token of the draft model, as a share of the target's; 0 if there is no draft model.

    Attributes:
        probes: Sizes of the batches in which the end of the prompt is read, to be timed.
    """

    def __init__(self, max_batch: int, draft_share: float) -> None:
        self._max_batch = min(MAX_BATCH, max_batch)
        self._draft_share = draft_share
        self._single_ns: list[int] = []
        self._batch_ns: dict[int, float] = {}
        self.probes = (*(size for size in _PROBES if size <= self._max_batch), 1)

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
        return len(self._single_ns) >= _SINGLES

    def profile(self) -> CostProfile:
        """Return the estimated costs."""
        single = float(statistics.median_low(self._single_ns))
        batch_ns = {1: single} | {size: max(single, ns) for size, ns in self._batch_ns.items()}
        largest, slope = max(batch_ns), _USUAL_SLOPE * single
        if largest > 1:
            slope = max(_LEAST_SLOPE * single, (batch_ns[largest] - single) / (largest - 1))
        if self._max_batch > largest:
            batch_ns[self._max_batch] = batch_ns[largest] + slope * (self._max_batch - largest)
        return CostProfile(
            batch_ns,
            draft_ns=single * max(_LEAST_DRAFT, self._draft_share) if self._draft_share else 0.0,
            draft_prompt_ns=self._draft_share * slope,
            max_batch=self._max_batch,
        )
