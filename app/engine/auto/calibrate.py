"""Calibrate a pair: measure the cost curve of the target and the cost of a drafted token."""

from __future__ import annotations

import statistics
from collections.abc import Generator, Sequence
from contextlib import suppress

from app.engine.auto.curve import MAX_ROWS, CostProfile
from app.engine.auto.stopwatch import COMFORT, SlowedError, Stopwatch
from app.engine.cache import TokenCache
from app.engine.interfaces import Cancelled, Clock

QUICK_ORDER = (1, 2, 4, 8, 16, 32, 3, 6, 12, 5, 7, 9, 24, 17, 48, 33, 64)
"""The widths that are worth measuring, every small one and both sides of the steps that kernels are known to have, in
the order in which they are measured when time may run out: the ends of likely steps first."""
_WITHIN_STEP = 3
"""Batch size that is measured early if a second token is expensive: kernels that take four at once make three cost more
than four, and an interpolated cost would let drafts of two lose.

In replays of 40 answers of 64 tokens without a draft model, 4 and 8 lost over 2% on two such machines without it, 2 and
1 with it, and no more where it took the time that 32 rows would have taken.
"""
_OUTLINE = (2, 4, 8, _WITHIN_STEP, 16, 32)
"""Widths that are measured once before any is measured again. The cost of still wider ones is estimated from the widest
of them, and n-gram drafting drafts as many tokens where earlier text comes again."""
ESSENTIAL = frozenset((1, 2, 4, 8))
"""Widths that are measured whatever it takes: a guess from two rows would decide against drafting for good.

By replays of first answers on machines that are worth drafting on, automatic drafting that knows no others is at most
3% slower than one that knows 16 rows as well; without 8, 2 or 4 rows it is up to 11%.
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

    Costs are measured as ratios: every width right after single rows, because the speed of a machine that does other
    things too drifts more within a second than the steps of the curve are high. Everything is run twice in a row: the
    first run pays for the change of width, the second does not, and what disturbs one of them does not count. Where a
    single row takes long, nothing is repeated that can be done without. The caches are left empty.

    Args:
        target: The big model's cache.
        draft: The draft model's, if there is one.
        text: Real text, at least as long as the widest batch; experts of a mixture are chosen by it.
        clock: Monotonic nanoseconds.
        budget_ns: What all may take from when the weights are in memory; `ESSENTIAL` widths are always measured. Where
            a single row was held up it is wasted up to there, at most twice.
        cancelled: Stops between two batches.
        passes: How often to go through the widths.

    Yields:
        The share of the work or of the budget that is done, whichever is further; it begins again with the measurement.

    Returns:
        What was measured.

    Raises:
        Interrupted: Cancelled; half a curve would be worse than none.
    """
    # Nothing wider is ever checked than what can be taken back, and the token before it.
    widest = min(len(text), target.n_rollback + 1)
    for left in reversed(range(_ATTEMPTS)):
        watch = Stopwatch(target, text, clock, budget_ns, cancelled, doubts=left > 0)
        with suppress(SlowedError):
            return (yield from _measured(watch, target, draft, widest, passes))
    raise AssertionError("the last attempt doubts nothing")


def _measured(
    watch: Stopwatch, target: TokenCache, draft: TokenCache | None, widest: int, passes: int
) -> Generator[float, None, CostProfile]:
    """Calibrate once; raise `SlowedError` if another attempt is worthwhile."""
    row_ns = yield from watch.warm_up(target)
    if draft is not None:
        yield from watch.warm_up(draft)
    watch.begin(row_ns, widest)
    budget_ns = watch.budget_ns
    draft_share, draft_prompt_share = watch.draft_shares(draft) if draft is not None else (0.0, 0.0)
    outline = [width for width in _OUTLINE if width <= widest]
    widths = outline + [width for width in QUICK_ORDER[1:] if width <= widest]
    again = [width for width in QUICK_ORDER[1:] * (passes - 1) if width <= widest]
    essential = ESSENTIAL & set(widths)
    cells: dict[int, float] = {}
    for done, width in enumerate((*widths, *again)):
        spent = watch.spent_ns
        times = _times(watch.expected(width), spent, budget_ns)
        is_needed = width in essential and width not in watch.shares
        fits = spent + watch.least(width) <= budget_ns
        waits = width == _WITHIN_STEP and done < len(outline) and not watch.is_steep
        if is_needed or (fits and not waits and (times or width not in watch.shares)):
            once = width in outline and (done < len(outline) or width in watch.shares)
            watch.look(width, times=min(times, 1) if once else times)
            if watch.is_odd(width):
                watch.look(width, times=1)
        if done == len(widths) - 1 and watch.fill_cost() < budget_ns - watch.spent_ns:
            cells = watch.cells()
        yield max((done + 1) / (len(widths) + len(again)), min(1.0, watch.spent_ns / budget_ns))
    watch.doubt()
    target.rollback(0)
    plain = statistics.median(watch.ones)
    return CostProfile(
        rows={1: plain} | {width: plain * share for width, share in sorted(watch.settled().items())},
        draft_ns=plain * draft_share,
        cells={width: plain * share for width, share in cells.items()},
        draft_prompt_ns=plain * draft_prompt_share,
        widest=min(MAX_ROWS, target.n_rollback + 1),
    )


def _times(look: float, spent: float, budget: float) -> int:
    """Looks at a width, each of which should take so long: two while there is time; 0 is a single run."""
    if spent > budget or look > COMFORT * budget:
        return 0
    return 1 if spent > budget / 2 or 2 * look > COMFORT * budget else 2
