"""Time batches to measure a pair, often enough that a short disturbance does not decide."""

from __future__ import annotations

import math
import statistics
from collections.abc import Generator, Sequence

from app.core.errors import Interrupted
from app.engine.auto.cost_profile import CONTEXT_BATCH_SIZES, expand
from app.engine.cache import TokenCache
from app.engine.draft_source import DraftSource
from app.engine.interfaces import Cancelled, Clock, Verdict

COMFORT = 0.25
"""Share of the budget for one batch size; slower ones are timed less often."""
_CONTEXT_TOKENS = 512
"""Cached tokens over which the cost of context is measured."""
_AGREEMENT_FACTOR = 1.1
"""Two measurements that differ by a larger factor are followed by a third."""
_EXPENSIVE_BUDGET_SHARE = 0.05
"""A single token that takes a larger share of the budget is timed once, not again for every batch size."""
_SHORT_PROMPT_SHARE = 0.02
"""A draft model that reads a prompt in less than this share of the budget also reads one twice as long: a GPU reads 64
tokens as fast as one, so a short prompt says nothing about thousands of tokens."""
_SLOWED_FACTOR = 1.5
"""A single token that takes this many times the median, or this many times a larger batch, was slowed down."""
_IMPLAUSIBLE, _SURE = 0.75, 3
"""A batch size below this share of a smaller one's cost is measured again, until it was measured this often."""
_FLAT_COST = 1.5
"""Measure again if the largest batch costs fewer single tokens: the single-token time was probably inflated."""
_WARM_SHARE = 0.9
"""A batch is warm once it takes at least this share of the fastest run before."""
_WARM_UPS = 5
_CONTEXT_REPEATS = 3
_HEAD_PROMPT, _HEAD_DRAFT = 16, 4
"""Length of the prompt and of the draft with which draft layers are timed, in tokens."""
_LEAST_TOKEN = 1e-3
"""Least cost of a further token of a block, as a share of the first; a cost of 0 would mean a free draft."""
_AT_ONCE = 2.0
"""A draft that takes less than this many times a one-token draft is a block, computed in one pass."""
_STEADY, _GROWTH_SHARE = 0.02, 0.25
"""Largest difference of single tokens before and after the context is measured: a share of a single token plus a share
of the time that the context adds to it. The result is extrapolated to much longer contexts, and so is any error."""


class SlowedError(Exception):
    """Other programs slowed down the single token to which all costs are relative."""


class BatchTimer:
    """Time batches on an empty cache.

    Methods that run a batch raise `Interrupted` once cancelled. `start`, `measure` and `recheck_single` raise
    `SlowedError` if the single token was slowed down.

    Args:
        budget_ns: Nanoseconds for everything, once the weights are in memory.
        cancelled: Checked before each batch.
        shares: Costs of each batch size that an interrupted measurement has found.
        strict: Whether a single token that was slowed down ends the measurement.

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
        shares: dict[int, list[float]],
        *,
        strict: bool,
    ) -> None:
        self._target = target
        self._text = text
        self._clock = clock
        self.budget_ns = budget_ns
        self._cancelled = cancelled
        self.singles: list[float] = []
        self.shares = shares
        self._is_expensive = False
        self._strict = strict
        self._started = clock()

    @property
    def spent_ns(self) -> int:
        """Return the nanoseconds since `start`."""
        return self._clock() - self._started

    def time(self, cache: TokenCache, size: int, n_outputs: int | None = None) -> float:
        """Return the nanoseconds of one batch, with logits for each token unless `n_outputs` is given."""
        cache.rollback(0)
        return self._time_over(cache, size, size if n_outputs is None else n_outputs)

    def _time_over(self, cache: TokenCache, size: int, n_outputs: int) -> float:
        """Return the nanoseconds of one batch over the cached tokens."""
        if self._cancelled():
            raise Interrupted
        before = self._clock()
        text = self._text
        cache.evaluate([text[i % len(text)] for i in range(size)] if size > len(text) else text[:size], n_outputs)
        if n_outputs:
            cache.logits(0)
        return float(self._clock() - before)

    def warm_up(self, cache: TokenCache, share: float) -> Generator[float, None, float]:
        """Run single tokens until they get no faster; return the nanoseconds of the fastest.

        The first ones read the weights from disk. Yields the finished `share` of the measurement.
        """
        least = math.inf
        for _ in range(_WARM_UPS):
            spent = self.time(cache, 1)
            is_warm, least = spent > _WARM_SHARE * least, min(spent, least)
            if is_warm:
                break
            yield share
        return least

    def start(self, single_ns: float, largest: int, spent_ns: int) -> None:
        """Time a single token; if `single_ns` is long, a batch of two shows whether it was slowed down.

        An interrupted measurement has spent `spent_ns` of the budget.
        """
        self._started = self._clock() - spent_ns
        if self._takes_long(single_ns) and largest > 1:
            two_ns = self.time(self._target, 2)
            single_ns = self.time(self._target, 1) if two_ns < _WARM_SHARE * single_ns else single_ns
            if self._takes_long(single_ns):
                self.shares.setdefault(2, [two_ns / single_ns])
        if self._takes_long(single_ns):
            self.singles.append(single_ns)
            self._is_expensive = True
            self._check_slowed(min(self.shares.get(2, [1.0])))
        else:
            self.single()

    def _takes_long(self, single_ns: float) -> bool:
        return single_ns > _EXPENSIVE_BUDGET_SHARE * self.budget_ns

    def _check_slowed(self, share: float) -> None:
        """Raise `SlowedError` if a batch costs less than the only single token that was timed."""
        if self._is_expensive and self._strict and _SLOWED_FACTOR * share < 1.0:
            raise SlowedError

    def recheck_single(self) -> None:
        """Time a single token again if no batch size costs much more: each may have waited for a disk."""
        if self._is_expensive and self._strict and max(self.costs().values(), default=_FLAT_COST) < _FLAT_COST:
            self._check_slowed(self.time(self._target, 1) / self.singles[-1])

    def single(self) -> float:
        """Return the nanoseconds of a single token, timed now unless that takes long."""
        if not self._is_expensive:
            ns = self._twice(self._target, 1)
            if self.singles and ns > _SLOWED_FACTOR * statistics.median(self.singles):
                # Relative to a slowed token, a batch would seem to cost nothing.
                ns = min(ns, self._twice(self._target, 1))
            self.singles.append(ns)
        return self.singles[-1]

    def least(self, size: int) -> float:
        """Return the nanoseconds that the shortest measurement of a batch size should take."""
        cost = expand({1: 1.0} | self.costs(), size)[size]
        return self.singles[-1] * (cost if self._is_expensive else 1.0 + cost)

    def costs(self) -> dict[int, float]:
        """Return the cost of each batch size in single tokens, at least 1: each batch reads all weights."""
        return {size: max(1.0, statistics.median(shares)) for size, shares in self.shares.items()}

    def is_implausible(self, size: int) -> bool:
        """Return whether a batch size seems much cheaper than a smaller one, after few measurements.

        Kernels have such steps, but a stalled machine looks the same.
        """
        costs = self.costs()
        smaller = max((cost for other, cost in costs.items() if other < size), default=1.0)
        return len(self.shares[size]) < _SURE and costs[size] < _IMPLAUSIBLE * smaller

    def measure(self, size: int, *, times: int) -> None:
        """Time a batch size `times` times, and once more if the first two disagree. With 0, time it once.

        Drafting never uses a size that was measured as expensive, so one disturbance must not decide.
        """
        # If this is interrupted, the size is measured again.
        shares = list(self.shares.get(size, ()))
        if not times:
            spent, single = self.time(self._target, size), self.singles[-1]
            shares.append(spent / (single if self._is_expensive else self.time(self._target, 1)))
        self._add(shares, self._target, size, times)
        self.shares[size] = shares
        self._check_slowed(min(shares))

    def draft_shares(self, draft: TokenCache) -> tuple[float, float]:
        """Return the cost of a drafted token and of a prompt token, in single tokens of the target."""
        shares: list[float] = []
        self._add(shares, draft, 1, 2)
        length = len(self._text)
        prompt_ns = self.time(draft, length, 1)
        if prompt_ns < COMFORT * self.budget_ns:
            # The first one may have set up its kernels.
            prompt_ns = min(prompt_ns, self.time(draft, length, 1))
        per_token = prompt_ns / length
        while 2 * prompt_ns < _SHORT_PROMPT_SHARE * self.budget_ns and 2 * length <= min(draft.n_batch, draft.n_ctx):
            length *= 2
            prompt_ns = min(self.time(draft, length, 1) for _ in range(2))
            per_token = min(per_token, prompt_ns / length)
        draft.rollback(0)
        return statistics.median(shares), per_token / self.single()

    def head_shares(self, head: DraftSource) -> tuple[float, float]:
        """Return the cost per drafted token and the fixed cost per draft of draft layers, in single target tokens.

        A block is computed in one pass, so nearly all of its cost is fixed. Other layers run once per token.
        """
        sequence = self._text[: _HEAD_PROMPT + 1]
        self.time(self._target, len(sequence) - 1, 1)
        head.catch_up(sequence)
        spent: list[float] = []
        for limit in (1, _HEAD_DRAFT):
            runs = [self._draft_ns(head, sequence, limit) for _ in range(_CONTEXT_REPEATS)]
            spent.append(min(runs))
        self._target.rollback(0)
        one, several = (ns / self.single() for ns in spent)
        if several < _AT_ONCE * one:
            per_token = max(_LEAST_TOKEN * one, several - one) / (_HEAD_DRAFT - 1)
            return per_token, one - per_token
        return several / _HEAD_DRAFT, 0.0

    def _draft_ns(self, head: DraftSource, sequence: Sequence[int], limit: int) -> float:
        """Return the nanoseconds of a draft of `limit` tokens, extrapolated if the draft is shorter."""
        if self._cancelled():
            raise Interrupted
        before = self._clock()
        draft = head.draft(sequence, limit, lambda depth, probability: Verdict.TAKE)
        return (self._clock() - before) * limit / max(1, len(draft))

    def fill_cost(self) -> float:
        """Return the nanoseconds to fill the cache far enough to measure the cost of context."""
        largest = max(self.shares, default=1)
        return _CONTEXT_TOKENS * self.singles[-1] * self.costs().get(largest, 1.0) / largest

    def context_costs(self) -> dict[int, float]:
        """Measure the cost of a cached token at each of `CONTEXT_BATCH_SIZES`, in single tokens, over a long context.

        It is empty if the context is too short, the speed changed meanwhile, or a batch cannot be rolled back.
        """
        target, text = self._target, self._text
        if target.n_rollback < target.n_ctx:
            return {}
        known = {1: 1.0} | {size: cost for size, cost in self.costs().items() if size in CONTEXT_BATCH_SIZES}
        before = self._shortest_single()
        target.rollback(0)
        while len(target) + len(text) <= min(_CONTEXT_TOKENS, target.n_ctx // 2):
            self._time_over(target, len(text), 0)
        length = len(target)
        if not length or len(known) < 2:
            return {}
        # A single token comes first and last, so that a change of speed in between shows.
        over = {size: self._shortest(length, size) for size in known}
        over_again, after = self._shortest(length, 1), self._shortest_single()
        single = (before + after) / 2
        doubt = max(abs(after - before), abs(over_again - over[1])) / single
        if doubt > _STEADY + _GROWTH_SHARE * max(0.0, min(over[1], over_again) / single - 1.0):
            return {}
        added = {size: max(0.0, over[size] / single - cost) / length for size, cost in known.items()}
        line = expand(added, CONTEXT_BATCH_SIZES[-1])
        return {size: line[size] for size in CONTEXT_BATCH_SIZES}

    def _shortest_single(self) -> float:
        return min(self.single() for _ in range(_CONTEXT_REPEATS))

    def _shortest(self, length: int, size: int) -> float:
        """Return the shortest of several batches over the cached tokens, in nanoseconds."""
        least = math.inf
        for _ in range(_CONTEXT_REPEATS):
            least = min(least, self._time_over(self._target, size, size))
            self._target.rollback(length)
        return least

    def _add(self, shares: list[float], cache: TokenCache, size: int, times: int) -> None:
        """Measure `times` times, and once more if the first two disagree."""
        for _ in range(times):
            shares.append(self._share(cache, size))
            if len(shares) == 2 and max(shares) > _AGREEMENT_FACTOR * min(shares):
                shares.append(self._share(cache, size))

    def _share(self, cache: TokenCache, size: int) -> float:
        """Return the cost of a batch size, in single tokens of the target timed right before."""
        single = self.single()
        return self._twice(cache, size) / single

    def _twice(self, cache: TokenCache, size: int) -> float:
        """Return the nanoseconds of the faster of two batches; the first one includes the change of size."""
        return min(self.time(cache, size), self.time(cache, size))
