"""Time batches for calibration, often enough that one disturbed moment does not decide."""

from __future__ import annotations

import math
import statistics
from collections.abc import Generator, Sequence

from app.core.errors import Interrupted
from app.engine.auto.attribution import CONTEXT_WIDTHS
from app.engine.auto.interpolation import expand
from app.engine.cache import TokenCache
from app.engine.interfaces import Cancelled, Clock

COMFORT = 0.25
"""Share of the budget for one batch size; slower ones are timed less often."""
_CONTEXT = 512
_AGREE = 1.1
"""Two measurements that differ by a larger factor are followed by a third."""
_EXPENSIVE = 0.05
"""A single token that takes a larger share of the budget is timed once, not again for every batch size."""
_SOON = 0.02
"""Share of the budget below which the draft model also reads a prompt twice as long: a GPU reads 64 tokens as fast as
one, which says nothing about thousands."""
_SLOWED = 1.5
"""A single token that takes this many times the others, or a larger batch, was slowed down."""
_IMPLAUSIBLE, _SURE = 0.75, 3
"""A batch size below this share of a smaller one's cost is measured again, until it was measured this often."""
_FLAT = 1.5
"""If no batch size costs this many single tokens, all may have waited for something else, such as a disk."""
_STEEP = 1.5
"""Cost of two tokens, in single ones, from which a second token is expensive."""
_WARM = 0.9
_WARM_UPS = 5
_CONTEXT_REPEATS = 3
_STEADY, _OF_GROWTH = 0.02, 0.25
"""Largest difference of single tokens before and after the measurement over a context: a share of a single token plus
a share of what the context adds to it. The result is extrapolated to much longer contexts, and so is any error."""


class SlowedError(Exception):
    """Other programs slowed down the single token that all costs are relative to."""


class BatchTimer:
    """Time batches on an empty cache.

    Methods that run a batch raise `Interrupted` once cancelled. `start`, `measure` and `recheck_single` raise
    `SlowedError` if the single token was slowed down.

    Args:
        target: The target's cache.
        text: Real text.
        clock: Monotonic nanoseconds.
        budget_ns: Nanoseconds for everything, once the weights are in memory.
        cancelled: Checked before each batch.
        strict: Whether a single token that was slowed down ends the calibration.

    Attributes:
        singles: Nanoseconds of single tokens.
        shares: Measured costs of each batch size, in single tokens timed right before.
    """

    def __init__(
        self,
        target: TokenCache,
        text: Sequence[int],
        clock: Clock,
        budget_ns: int,
        cancelled: Cancelled,
        *,
        strict: bool,
    ) -> None:
        self._target = target
        self._text = text
        self._clock = clock
        self.budget_ns = budget_ns
        self._cancelled = cancelled
        self.singles: list[float] = []
        self.shares: dict[int, list[float]] = {}
        self._is_expensive = False
        self._strict = strict
        self._started = clock()

    @property
    def spent_ns(self) -> int:
        """Nanoseconds since `start`."""
        return self._clock() - self._started

    def time(self, cache: TokenCache, width: int, n_outputs: int | None = None) -> float:
        """Return the nanoseconds of one batch, with logits for each token unless `n_outputs` is given."""
        cache.rollback(0)
        return self._time_over(cache, width, width if n_outputs is None else n_outputs)

    def _time_over(self, cache: TokenCache, width: int, n_outputs: int) -> float:
        """Return the nanoseconds of one batch over the cached tokens."""
        if self._cancelled():
            raise Interrupted
        before = self._clock()
        text = self._text
        cache.evaluate([text[i % len(text)] for i in range(width)] if width > len(text) else text[:width], n_outputs)
        if n_outputs:
            cache.logits(0)
        return float(self._clock() - before)

    def warm_up(self, cache: TokenCache) -> Generator[float, None, float]:
        """Run single tokens until they get no faster: the first ones read the weights from disk.

        Returns:
            Nanoseconds of the fastest.
        """
        least = math.inf
        for _ in range(_WARM_UPS):
            spent = self.time(cache, 1)
            is_warm, least = spent > _WARM * least, min(spent, least)
            if is_warm:
                break
            yield 0.0
        return least

    def start(self, row_ns: float, widest: int) -> None:
        """Time a single token; if `row_ns` is long, a batch of two shows whether it was slowed down."""
        self._started = self._clock()
        if self._takes_long(row_ns) and widest > 1:
            two_ns = self.time(self._target, 2)
            row_ns = self.time(self._target, 1) if two_ns < _WARM * row_ns else row_ns
            if self._takes_long(row_ns):
                self.shares[2] = [two_ns / row_ns]
        if self._takes_long(row_ns):
            self.singles.append(row_ns)
            self._is_expensive = True
            self._check_slowed(min(self.shares.get(2, [1.0])))
        else:
            self.single()

    def _takes_long(self, row_ns: float) -> bool:
        return row_ns > _EXPENSIVE * self.budget_ns

    def _check_slowed(self, share: float) -> None:
        """Raise `SlowedError` if a batch costs less than the only single token that was timed."""
        if self._is_expensive and self._strict and _SLOWED * share < 1.0:
            raise SlowedError

    def recheck_single(self) -> None:
        """Time a single token again if no batch size costs much more: each may have waited for a disk."""
        if self._is_expensive and self._strict and max(self.settled().values(), default=_FLAT) < _FLAT:
            self._check_slowed(self.time(self._target, 1) / self.singles[-1])

    def single(self) -> float:
        """Return the nanoseconds of a single token, timed now unless that takes long."""
        if not self._is_expensive:
            ns = self._twice(self._target, 1)
            if self.singles and ns > _SLOWED * statistics.median(self.singles):
                # Relative to a slowed token, a batch would seem to cost nothing.
                ns = min(ns, self._twice(self._target, 1))
            self.singles.append(ns)
        return self.singles[-1]

    def expected(self, width: int) -> float:
        """Return the nanoseconds that one measurement of a batch size should take."""
        return 2 * self.least(width)

    def least(self, width: int) -> float:
        """Return the nanoseconds that the shortest measurement of a batch size should take."""
        one = self.singles[-1]
        share = expand({1: 1.0} | self.settled(), width)[width]
        return one * (share if self._is_expensive else 1.0 + share)

    def settled(self) -> dict[int, float]:
        """Return the cost of each batch size in single tokens, at least 1: each batch reads all weights."""
        return {width: max(1.0, statistics.median(shares)) for width, shares in self.shares.items()}

    @property
    def is_steep(self) -> bool:
        """Return whether a second token costs more than half of the first."""
        return self.settled().get(2, 1.0) > _STEEP

    def is_implausible(self, width: int) -> bool:
        """Return whether a batch size seems much cheaper than a smaller one, after few measurements.

        Kernels have such steps, but a stalled machine looks the same.
        """
        settled = self.settled()
        narrower = max((share for other, share in settled.items() if other < width), default=1.0)
        return len(self.shares[width]) < _SURE and settled[width] < _IMPLAUSIBLE * narrower

    def measure(self, width: int, *, times: int) -> None:
        """Time a batch size.

        A size measured as expensive is never tried, so one disturbed moment must not decide.

        Args:
            width: Tokens.
            times: Measurements, one more if the first two disagree; 0 spends as little time as possible.
        """
        shares = self.shares.setdefault(width, [])
        if not times:
            spent, one = self.time(self._target, width), self.singles[-1]
            shares.append(spent / (one if self._is_expensive else self.time(self._target, 1)))
        self._add(shares, self._target, width, times)
        self._check_slowed(min(shares))

    def draft_shares(self, draft: TokenCache) -> tuple[float, float]:
        """Return the cost of a drafted token and of a prompt token, in single tokens of the target."""
        shares: list[float] = []
        self._add(shares, draft, 1, 2)
        width = len(self._text)
        prompt = self.time(draft, width, 1)
        if prompt < COMFORT * self.budget_ns:
            # The first one may have set up its kernels.
            prompt = min(prompt, self.time(draft, width, 1))
        each = prompt / width
        while 2 * prompt < _SOON * self.budget_ns and 2 * width <= min(draft.n_batch, draft.n_ctx):
            width *= 2
            prompt = min(self.time(draft, width, 1) for _ in range(2))
            each = min(each, prompt / width)
        draft.rollback(0)
        return statistics.median(shares), each / self.single()

    def fill_cost(self) -> float:
        """Return the nanoseconds to fill the cache far enough to measure the cost of context."""
        widest = max(self.shares, default=1)
        return _CONTEXT * self.singles[-1] * self.settled().get(widest, 1.0) / widest

    def cells(self) -> dict[int, float]:
        """Measure the cost of a cached token, in single tokens, from batches over a long context.

        Returns:
            The cost at each of `CONTEXT_WIDTHS`; empty if the context is too short, the speed changed meanwhile, or a
            batch cannot be rolled back.
        """
        target, text = self._target, self._text
        if target.n_rollback < target.n_ctx:
            return {}
        known = {1: 1.0} | {width: share for width, share in self.settled().items() if width in CONTEXT_WIDTHS}
        before = self._plain()
        target.rollback(0)
        while len(target) + len(text) <= min(_CONTEXT, target.n_ctx // 2):
            self._time_over(target, len(text), 0)
        length = len(target)
        if not length or len(known) < 2:
            return {}
        # The single token first and last, so that a change of speed in between shows.
        over = {width: self._shortest(length, width) for width in known}
        over_again, after = self._shortest(length, 1), self._plain()
        plain = (before + after) / 2
        doubt = max(abs(after - before), abs(over_again - over[1])) / plain
        if doubt > _STEADY + _OF_GROWTH * max(0.0, min(over[1], over_again) / plain - 1.0):
            return {}
        grown = {width: max(0.0, over[width] / plain - share) / length for width, share in known.items()}
        line = expand(grown, CONTEXT_WIDTHS[-1])
        return {width: line[width] for width in CONTEXT_WIDTHS}

    def _plain(self) -> float:
        """Return the shortest of several single tokens, in nanoseconds."""
        return min(self.single() for _ in range(_CONTEXT_REPEATS))

    def _shortest(self, length: int, width: int) -> float:
        """Return the shortest of several batches over the cached tokens, in nanoseconds."""
        least = math.inf
        for _ in range(_CONTEXT_REPEATS):
            least = min(least, self._time_over(self._target, width, width))
            self._target.rollback(length)
        return least

    def _add(self, shares: list[float], cache: TokenCache, width: int, times: int) -> None:
        """Measure `times` times, and once more if the first two disagree."""
        for _ in range(times):
            shares.append(self.share(cache, width))
            if len(shares) == 2 and max(shares) > _AGREE * min(shares):
                shares.append(self.share(cache, width))

    def share(self, cache: TokenCache, width: int) -> float:
        """Return the cost of a batch size, in single tokens of the target timed right before."""
        one = self.single()
        return self._twice(cache, width) / one

    def _twice(self, cache: TokenCache, width: int) -> float:
        return min(self.time(cache, width), self.time(cache, width))
