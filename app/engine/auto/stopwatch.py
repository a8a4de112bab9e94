"""Time single batches for calibration, often enough that one disturbed moment does not decide."""

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
_SLOW = 0.05
"""A single row that takes a larger share of the budget is timed once, not again for every width: what a change of the
machine's speed spoils is less than the wait for more of them."""
_SOON = 0.02
"""Share of the budget. While the draft model would take less to read a piece of a prompt twice as long, that is timed
too: that a card reads sixty-four tokens as soon as one says nothing of how it reads thousands."""
_SLOWED = 1.5
"""A single row that takes so many times what the others took, or batches that need all weights as well, was held up."""
_ODD, _SURE = 0.75, 3
"""A width that seems to cost less than this share of a narrower one is looked at again, unless so many looks say so."""
_FLAT = 1.5
"""Where no width takes so many times what a single row does, all may have waited for something else."""
_STEEP = 1.5
"""Single rows that two take where a second one is expensive: it costs more than half of the first."""
_WARM = 0.9
_WARM_UPS = 5
_CONTEXT_REPEATS = 3
_STEADY, _OF_GROWTH = 0.02, 0.25
"""How far single rows from before and after the measurement behind a context may lie apart: these shares of a row and
of what the context adds to it, together. What is measured is extrapolated to contexts many times as long, and with it
that the machine got busy meanwhile."""


class SlowedError(Exception):
    """Other programs slowed down the single token that all costs are relative to."""


class Stopwatch:
    """Time batches on an empty cache.

    Args:
        target: The big model's cache.
        text: Real text.
        clock: Monotonic nanoseconds.
        budget_ns: See below.
        cancelled: Looked at before every batch.
        doubts: Whether an expensive single row is given up as soon as others refute it.

    Attributes:
        budget_ns: What all may take from when the weights are in memory.
        ones: Nanoseconds of single rows.
        shares: Per width, the cost in single rows timed right before, each time it was looked at.

    Everything that runs a batch raises `Interrupted` once it is cancelled, and `begin`, `look` and `doubt` raise
    `SlowedError`.
    """

    def __init__(
        self,
        target: TokenCache,
        text: Sequence[int],
        clock: Clock,
        budget_ns: int,
        cancelled: Cancelled,
        *,
        doubts: bool,
    ) -> None:
        self._target = target
        self._text = text
        self._clock = clock
        self.budget_ns = budget_ns
        self._cancelled = cancelled
        self.ones: list[float] = []
        self.shares: dict[int, list[float]] = {}
        self._is_slow = False
        self._doubts = doubts
        self._started = clock()

    @property
    def spent_ns(self) -> int:
        """Nanoseconds since `begin`."""
        return self._clock() - self._started

    def time(self, cache: TokenCache, width: int, n_outputs: int | None = None) -> float:
        """Nanoseconds of one batch, its logits for every row unless told otherwise."""
        cache.rollback(0)
        return self._time_behind(cache, width, width if n_outputs is None else n_outputs)

    def _time_behind(self, cache: TokenCache, width: int, n_outputs: int) -> float:
        """Nanoseconds of one batch behind what the cache holds."""
        if self._cancelled():
            raise Interrupted
        before = self._clock()
        text = self._text
        cache.evaluate([text[i % len(text)] for i in range(width)] if width > len(text) else text[:width], n_outputs)
        if n_outputs:
            cache.logits(0)
        return float(self._clock() - before)

    def warm_up(self, cache: TokenCache) -> Generator[float, None, float]:
        """Run single rows until they get no faster: the first read the weights from the disk.

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

    def begin(self, row_ns: float, widest: int) -> None:
        """Time a single row, which took so long before; if that was long, two tell whether it was only held up."""
        self._started = self._clock()
        if self._is_dear(row_ns) and widest > 1:
            two_ns = self.time(self._target, 2)
            row_ns = self.time(self._target, 1) if two_ns < _WARM * row_ns else row_ns
            if self._is_dear(row_ns):
                self.shares[2] = [two_ns / row_ns]
        if self._is_dear(row_ns):
            self.ones.append(row_ns)
            self._is_slow = True
            self._hold_against(min(self.shares.get(2, [1.0])))
        else:
            self.one()

    def _is_dear(self, row_ns: float) -> bool:
        return row_ns > _SLOW * self.budget_ns

    def _hold_against(self, share: float) -> None:
        """Hold what a batch took, in single rows, against the only one that was timed, where that is expensive."""
        if self._is_slow and self._doubts and _SLOWED * share < 1.0:
            raise SlowedError

    def doubt(self) -> None:
        """Time a single row once more if many take hardly longer: so they do where each batch waits for a disk."""
        if self._is_slow and self._doubts and max(self.settled().values(), default=_FLAT) < _FLAT:
            self._hold_against(self.time(self._target, 1) / self.ones[-1])

    def one(self) -> float:
        """Nanoseconds of a single row: now, unless that takes long."""
        if not self._is_slow:
            ns = self._twice(self._target, 1)
            if self.ones and ns > _SLOWED * statistics.median(self.ones):
                # What is timed in such a row looks as if it cost nothing; what is timed in one that stays so does not.
                ns = min(ns, self._twice(self._target, 1))
            self.ones.append(ns)
        return self.ones[-1]

    def expected(self, width: int) -> float:
        """Nanoseconds that a look at a width should take, by those that were measured."""
        return 2 * self.least(width)

    def least(self, width: int) -> float:
        """Nanoseconds that the shortest look at a width should take."""
        one = self.ones[-1]
        share = expand({1: 1.0} | self.settled(), width)[width]
        return one * (share if self._is_slow else 1.0 + share)

    def settled(self) -> dict[int, float]:
        """Return the cost of each batch size in single tokens, at least 1: each batch reads all weights."""
        return {width: max(1.0, statistics.median(shares)) for width, shares in self.shares.items()}

    @property
    def is_steep(self) -> bool:
        """Return whether a second token costs more than half of the first."""
        return self.settled().get(2, 1.0) > _STEEP

    def is_odd(self, width: int) -> bool:
        """Return whether a batch size seems much cheaper than a smaller one, after few measurements.

        Kernels have such steps, but a stalled machine looks the same.
        """
        settled = self.settled()
        narrower = max((share for other, share in settled.items() if other < width), default=1.0)
        return len(self.shares[width]) < _SURE and settled[width] < _ODD * narrower

    def look(self, width: int, *, times: int) -> None:
        """Time a width.

        A size measured as expensive is never tried, so one disturbed moment must not decide.

        Args:
            width: Rows.
            times: How often, once more where the first two looks do not agree; 0 spends as little time as possible.
        """
        shares = self.shares.setdefault(width, [])
        if not times:
            spent, one = self.time(self._target, width), self.ones[-1]
            shares.append(spent / (one if self._is_slow else self.time(self._target, 1)))
        self._add(shares, self._target, width, times)
        self._hold_against(min(shares))

    def draft_shares(self, draft: TokenCache) -> tuple[float, float]:
        """Return the cost of a drafted token and of a prompt token, in single tokens of the target."""
        shares: list[float] = []
        self._add(shares, draft, 1, 2)
        width = len(self._text)
        prompt = self.time(draft, width, 1)
        if prompt < COMFORT * self.budget_ns:
            # The first one may also have made what its kernels need.
            prompt = min(prompt, self.time(draft, width, 1))
        each = prompt / width
        while 2 * prompt < _SOON * self.budget_ns and 2 * width <= min(draft.n_batch, draft.n_ctx):
            width *= 2
            prompt = min(self.time(draft, width, 1) for _ in range(2))
            each = min(each, prompt / width)
        draft.rollback(0)
        return statistics.median(shares), each / self.one()

    def fill_cost(self) -> float:
        """Return the nanoseconds to fill the cache far enough to measure the cost of context."""
        widest = max(self.shares, default=1)
        return _CONTEXT * self.ones[-1] * self.settled().get(widest, 1.0) / widest

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
            self._time_behind(target, len(text), 0)
        length = len(target)
        if not length or len(known) < 2:
            return {}
        # The single row first and last: what came over the machine in between shows in one of them.
        behind = {width: self._behind(length, width) for width in known}
        behind_again, after = self._behind(length, 1), self._plain()
        plain = (before + after) / 2
        doubt = max(abs(after - before), abs(behind_again - behind[1])) / plain
        if doubt > _STEADY + _OF_GROWTH * max(0.0, min(behind[1], behind_again) / plain - 1.0):
            return {}
        grown = {width: max(0.0, behind[width] / plain - share) / length for width, share in known.items()}
        line = expand(grown, CONTEXT_WIDTHS[-1])
        return {width: line[width] for width in CONTEXT_WIDTHS}

    def _plain(self) -> float:
        """The least of some single rows, in nanoseconds."""
        return min(self.one() for _ in range(_CONTEXT_REPEATS))

    def _behind(self, length: int, width: int) -> float:
        """The least of some batches behind what the target's cache holds, in nanoseconds."""
        least = math.inf
        for _ in range(_CONTEXT_REPEATS):
            least = min(least, self._time_behind(self._target, width, width))
            self._target.rollback(length)
        return least

    def _add(self, shares: list[float], cache: TokenCache, width: int, times: int) -> None:
        """Look so often, and once more where the first two looks do not agree."""
        for _ in range(times):
            shares.append(self.share(cache, width))
            if len(shares) == 2 and max(shares) > _AGREE * min(shares):
                shares.append(self.share(cache, width))

    def share(self, cache: TokenCache, width: int) -> float:
        """The cost of a width in a cache, in single rows of the target timed right before."""
        one = self.one()
        return self._twice(cache, width) / one

    def _twice(self, cache: TokenCache, width: int) -> float:
        return min(self.time(cache, width), self.time(cache, width))
