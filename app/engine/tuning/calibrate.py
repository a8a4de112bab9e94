"""Measuring what batches cost on this machine, in the time that somebody is willing to wait."""

from __future__ import annotations

import statistics
from collections.abc import Generator, Mapping, Sequence

from app.engine.cache import TokenCache
from app.engine.interfaces import Cancelled, Clock
from app.engine.tuning.curve import PROFILE_WIDTHS, CostProfile
from app.errors import Interrupted

QUICK_ORDER = (1, 2, 4, 8, 3, 16, 6, 12, 5, 32, 7, 9, 24, 17, 48, 33, 64)
"""The order in which widths are measured when time may run out: the ends of likely steps first."""
_DRAFT_TOKENS = 4
_CONTEXT = 512
_NARROW = 8
_DOUBTFUL = 1.05
_CONTEXT_WIDTHS = (1, 4)
_CONTEXT_REPEATS = 3


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

    Raises:
        Interrupted: Cancelled; half a curve would be worse than none.
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

    draft_ns = draft_prompt_ns = 0.0
    if draft is not None:
        timed(draft, 1, 1)
        draft_ns = min(timed(draft, 1, 1) for _ in range(_DRAFT_TOKENS))
        draft_prompt_ns = timed(draft, len(text), 1) / len(text)
        draft.rollback(0)
    timed(target, 1, 1)
    plan = [width for _ in range(passes) for width in QUICK_ORDER if width <= len(text)]
    for done, width in enumerate(plan):
        spent = clock() - started
        if cancelled():
            raise Interrupted
        if len(samples) >= 2 and spent > budget_ns:
            break
        changed, same = timed(target, width, width), timed(target, width, width)
        samples.setdefault(width, []).extend((changed, same))
        switches.append(max(0.0, float(changed - same)))
        if _is_doubtful(width, samples):
            samples[width].append(timed(target, width, width))
        yield max((done + 1) / len(plan), min(1.0, spent / budget_ns))
    profile = CostProfile(
        rows={width: min(values) for width, values in sorted(samples.items())},
        draft_ns=draft_ns,
        switch_ns=statistics.median(switches) if switches else 0.0,
        draft_prompt_ns=draft_prompt_ns,
    )
    if _fill_cost(profile, text) < budget_ns - (clock() - started):
        _measure_context(target, text, clock, profile)
    target.rollback(0)
    return profile


def _is_doubtful(width: int, samples: Mapping[int, Sequence[float]]) -> bool:
    """Whether two batches of half the width took clearly less: more likely other work came in between.

    A wide batch that is thought dear is never tried again, so its measurement must not rest on one unlucky moment.
    """
    half = samples.get(width // 2)
    return width > _NARROW and half is not None and min(samples[width]) > _DOUBTFUL * 2 * min(half)


def _fill_cost(profile: CostProfile, text: Sequence[int]) -> float:
    """What it would take to fill the cache far enough to see the cost of context."""
    widest = max(profile.rows)
    return _CONTEXT * profile.rows[widest] / widest


def _measure_context(target: TokenCache, text: Sequence[int], clock: Clock, profile: CostProfile) -> None:
    """Add what a token in the cache costs a batch, from batches of two widths behind a long context."""
    target.rollback(0)
    while len(target) + len(text) <= min(_CONTEXT, target.n_ctx // 2):
        target.evaluate(text, 0)
    length = len(target)
    if not length:
        return
    grown = {}
    for width in _CONTEXT_WIDTHS:
        times = []
        for _ in range(_CONTEXT_REPEATS):
            before = clock()
            target.evaluate(text[:width], width)
            target.logits(0)
            times.append(clock() - before)
            target.rollback(length)
        grown[width] = max(0.0, min(times) - profile.rows.get(width, min(times))) / length
    narrow, wide = _CONTEXT_WIDTHS
    profile.per_cell_row = max(0.0, (grown[wide] - grown[narrow]) / (wide - narrow))
    profile.per_cell = max(0.0, grown[narrow] - narrow * profile.per_cell_row)


assert set(QUICK_ORDER) == set(PROFILE_WIDTHS)
