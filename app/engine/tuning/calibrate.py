"""Measuring what batches cost on this machine, in the time that somebody is willing to wait."""

from __future__ import annotations

import statistics
from collections.abc import Generator, Sequence

from app.engine.cache import TokenCache
from app.engine.interfaces import Cancelled, Clock
from app.engine.tuning.curve import PROFILE_WIDTHS, CostProfile

QUICK_ORDER = (1, 2, 4, 8, 3, 16, 6, 12, 5, 32, 7, 9, 24, 17, 48, 33, 64)
"""The order in which widths are measured when time may run out: the ends of likely steps first."""
_DRAFT_TOKENS = 4


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

    Every width is run twice in a row: the first run pays for the change of width, the second does not. The least time
    counts, because other work on the machine only ever adds. The caches are left empty.

    Args:
        target: The big model's cache.
        draft: The draft model's, if there is one.
        text: Real text, at least as long as the widest batch; experts of a mixture are chosen by it.
        clock: Monotonic nanoseconds.
        budget_ns: When to stop measuring; width 1 and 2 are always measured.
        cancelled: Stops between two batches.
        passes: How often to go through the widths.

    Yields:
        The share of the work or of the budget that is done, whichever is further.

    Returns:
        What was measured.
    """
    started = clock()
    samples: dict[int, list[float]] = {}
    switches: list[float] = []

    def timed(cache: TokenCache, n: int, n_outputs: int) -> int:
        cache.rollback(0)
        before = clock()
        cache.evaluate(text[:n], n_outputs)
        cache.logits(0)
        return clock() - before

    draft_ns = 0.0
    if draft is not None:
        timed(draft, 1, 1)
        draft_ns = min(timed(draft, 1, 1) for _ in range(_DRAFT_TOKENS))
        draft.rollback(0)
    timed(target, 1, 1)
    plan = [width for _ in range(passes) for width in QUICK_ORDER if width <= len(text)]
    for done, width in enumerate(plan):
        spent = clock() - started
        if cancelled() or (len(samples) >= 2 and spent > budget_ns):
            break
        changed, same = timed(target, width, width), timed(target, width, width)
        samples.setdefault(width, []).extend((changed, same))
        switches.append(max(0.0, float(changed - same)))
        yield max((done + 1) / len(plan), min(1.0, spent / budget_ns))
    target.rollback(0)
    return CostProfile(
        rows={width: min(values) for width, values in sorted(samples.items())},
        draft_ns=draft_ns,
        switch_ns=statistics.median(switches) if switches else 0.0,
    )


assert set(QUICK_ORDER) == set(PROFILE_WIDTHS)
