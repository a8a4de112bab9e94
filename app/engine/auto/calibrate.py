"""Calibrate a pair: measure the cost curve of the target and the cost of a drafted token."""

from __future__ import annotations

import statistics
from collections.abc import Generator, Sequence
from contextlib import suppress

from app.engine.auto.batch_timer import COMFORT, BatchTimer, SlowedError
from app.engine.auto.curve import MAX_ROWS, CostProfile
from app.engine.cache import TokenCache
from app.engine.interfaces import Cancelled, Clock

QUICK_ORDER = (1, 2, 4, 8, 16, 32, 3, 6, 12, 5, 7, 9, 24, 17, 48, 33, 64)
"""Batch sizes worth measuring, most important first: the small ones, and both sides of the known steps of kernels."""
_WITHIN_STEP = 3
"""Batch size measured early if a second token is expensive. Kernels that take four at once make three cost more than
four, and with an interpolated cost drafts of two would lose.

In 40 replayed answers of 64 tokens without a draft model, on two such machines, 4 and 8 lost over 2% without it, and
2 and 1 with it.
"""
_OUTLINE = (2, 4, 8, _WITHIN_STEP, 16, 32)
"""Batch sizes measured once before any is measured again. Costs of larger ones, which n-gram drafts need, are
extrapolated from the largest."""
ESSENTIAL = frozenset((1, 2, 4, 8))
"""Batch sizes measured even beyond the budget.

In replays of first answers, automatic drafting was at most 3% slower without size 16, and up to 11% without 8, 2 or 4.
"""
_ATTEMPTS = 3
"""Attempts; the last one accepts a slow machine."""


def calibrate(
    target: TokenCache,
    draft: TokenCache | None,
    text: Sequence[int],
    clock: Clock,
    *,
    budget_ns: int,
    cancelled: Cancelled = lambda: False,
    passes: int = 1,
) -> Generator[float, None, CostProfile]:
    """Measure the cost curve of a target and the cost of a drafted token, on empty caches.

    Costs are ratios: each batch size is timed right after single tokens, because a shared machine drifts by more than
    the steps of the curve within a second. Each batch runs twice, and the faster run counts: the first one pays for the
    change of size. If a single token takes long, little is repeated. The caches are left empty.

    Args:
        target: The target's cache.
        draft: The draft model's cache, if there is one.
        text: Real text, at least as long as the largest batch; it selects the experts of a mixture.
        clock: Monotonic nanoseconds.
        budget_ns: Nanoseconds for everything, once the weights are in memory; `ESSENTIAL` sizes are always measured.
            If other programs slow it down, it starts again, at most twice.
        cancelled: Stops between two batches.
        passes: Times to go through the batch sizes.

    Yields:
        The share of the work or of the budget that is done, whichever is greater.

    Raises:
        Interrupted: Cancelled; half a curve would be worse than none.
    """
    # No draft is longer than the target can roll back.
    widest = min(len(text), target.n_rollback + 1)
    for left in reversed(range(_ATTEMPTS)):
        timer = BatchTimer(target, text, clock, budget_ns, cancelled, strict=left > 0)
        with suppress(SlowedError):
            return (yield from _measured(timer, target, draft, widest, passes))
    raise AssertionError("the last attempt is not strict")


def _measured(
    timer: BatchTimer, target: TokenCache, draft: TokenCache | None, widest: int, passes: int
) -> Generator[float, None, CostProfile]:
    """Calibrate once; raise `SlowedError` if another attempt is worthwhile."""
    row_ns = yield from timer.warm_up(target)
    if draft is not None:
        yield from timer.warm_up(draft)
    timer.start(row_ns, widest)
    budget_ns = timer.budget_ns
    draft_share, draft_prompt_share = timer.draft_shares(draft) if draft is not None else (0.0, 0.0)
    outline = [width for width in _OUTLINE if width <= widest]
    widths = outline + [width for width in QUICK_ORDER[1:] if width <= widest]
    again = [width for width in QUICK_ORDER[1:] * (passes - 1) if width <= widest]
    essential = ESSENTIAL & set(widths)
    cells: dict[int, float] = {}
    for done, width in enumerate((*widths, *again)):
        spent = timer.spent_ns
        times = _times(timer.expected(width), spent, budget_ns)
        is_needed = width in essential and width not in timer.shares
        fits = spent + timer.least(width) <= budget_ns
        waits = width == _WITHIN_STEP and done < len(outline) and not timer.is_steep
        if is_needed or (fits and not waits and (times or width not in timer.shares)):
            once = width in outline and (done < len(outline) or width in timer.shares)
            timer.measure(width, times=min(times, 1) if once else times)
            if timer.is_implausible(width):
                timer.measure(width, times=1)
        if done == len(widths) - 1 and timer.fill_cost() < budget_ns - timer.spent_ns:
            cells = timer.cells()
        yield max((done + 1) / (len(widths) + len(again)), min(1.0, timer.spent_ns / budget_ns))
    timer.recheck_single()
    target.rollback(0)
    plain = statistics.median(timer.singles)
    return CostProfile(
        rows={1: plain} | {width: plain * share for width, share in sorted(timer.settled().items())},
        draft_ns=plain * draft_share,
        cells={width: plain * share for width, share in cells.items()},
        draft_prompt_ns=plain * draft_prompt_share,
        widest=min(MAX_ROWS, target.n_rollback + 1),
    )


def _times(look: float, spent: float, budget: float) -> int:
    """Return how often to measure a batch size: two while there is time; 0 is a single run."""
    if spent > budget or look > COMFORT * budget:
        return 0
    return 1 if spent > budget / 2 or 2 * look > COMFORT * budget else 2
