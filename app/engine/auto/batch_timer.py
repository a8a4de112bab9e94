"""Time batches to measure a pair, and keep short disturbances from deciding."""

from __future__ import annotations

import math
import statistics
from collections.abc import Generator, Sequence

from app.core.errors import Interrupted
from app.engine.auto.cost_profile import CONTEXT_BATCH_SIZES, expand
from app.engine.cache import TokenCache
from app.engine.draft_source import DraftSource
from app.engine.interfaces import Cancelled, Clock, Verdict

DRAFT_MODEL = 0
"""Stands for a single token of the draft model among the target's batch sizes."""
_SLOW_SAMPLE_SHARE = 0.25
"""Share of the budget above which a sample is slow; its batches run only once."""
_CONTEXT_TOKENS = 512
"""Cached tokens over which the cost of the context is measured."""
_AGREEMENT_FACTOR = 1.1
"""If two samples differ by a larger factor, a third follows."""
_SHORT_PROMPT_SHARE = 0.02
"""A draft model that reads a prompt in less than this share of the budget also reads a prompt twice as long: a GPU
reads 64 tokens as fast as one, so a short prompt says nothing about thousands of tokens."""
_SLOWED_FACTOR = 1.5
"""A single token that takes this many times the usual time was slowed down."""
_MAX_SAMPLES = 3
"""Samples of a size after which disagreement causes no further sample."""
_WARM_SHARE = 0.9
"""A batch is warm once it takes at least this share of the fastest earlier run."""
_WARM_UPS = 5
_CONTEXT_REPEATS = 3
_HEAD_PROMPT, _HEAD_DRAFT = 16, 4
"""Length of the prompt and of the draft for timing draft layers, in tokens."""
_MIN_TOKEN_SHARE = 1e-3
"""Lowest cost of a further token of a block, as a share of the first; zero would mean a free draft."""
_BLOCK_FACTOR = 2.0
"""A longer draft that takes less than this many times a one-token draft is a block, computed in one pass."""
_STEADY_SHARE, _GROWTH_SHARE = 0.02, 0.25
"""Largest difference between single tokens before and after the context is measured: a share of a single token plus a
share of the time that the context adds. The result is extrapolated to much longer contexts, and so is any error."""


class BatchTimer:
    """Time batches on an empty cache, relative to single tokens of the same moment.

    The speed of a shared machine changes within a second by more than the steps of the curve. A sample is the time of a
    batch and of a single token right before it. Both run twice, and the faster run counts: the first run includes the
    change of size. If a single token was slowed down, its batch seems to cost nothing; such a sample counts only if its
    size has no other.

    Methods that run a batch raise `Interrupted` after a cancellation.

    Attributes:
        budget_ns: Time for everything, once the weights are in memory.
    """

    def __init__(
        self, target: TokenCache, draft: TokenCache | None, text: Sequence[int], clock: Clock, budget_ns: int
    ) -> None:
        self.target = target
        self.draft = draft
        self._text = text
        self.clock = clock
        self.budget_ns = budget_ns
        self.cancelled: Cancelled = lambda: False
        self._singles: list[float] = []
        self._samples: dict[int, list[tuple[float, float]]] = {}
        """Nanoseconds of the single token and of the batch in each sample, by batch size."""

    def time(self, cache: TokenCache, size: int, n_outputs: int | None = None) -> float:
        """Return the nanoseconds of a batch, with logits for each token unless `n_outputs` is given."""
        cache.rollback(0)
        return self._time_over(cache, size, size if n_outputs is None else n_outputs)

    def _time_over(self, cache: TokenCache, size: int, n_outputs: int) -> float:
        if self.cancelled():
            raise Interrupted
        before = self.clock()
        text = self._text
        cache.evaluate([text[i % len(text)] for i in range(size)] if size > len(text) else text[:size], n_outputs)
        if n_outputs:
            cache.logits(0)
        return float(self.clock() - before)

    def warm_up(self, cache: TokenCache, share: float) -> Generator[float, None, None]:
        """Run single tokens until they get no faster. Yields the finished `share` of the measurement.

        The first tokens read the weights from disk.
        """
        least = math.inf
        for _ in range(_WARM_UPS):
            spent = self.time(cache, 1)
            is_warm, least = spent > _WARM_SHARE * least, min(spent, least)
            if is_warm:
                break
            yield share
        if cache is self.target:
            self._singles.append(least)

    # Samples

    def sample(self, size: int, n_runs: int) -> None:
        """Time a batch size beside a single token, each `n_runs` times; 0 does nothing."""
        if n_runs:
            single_ns = self._single(n_runs)
            cache, n = (self.draft, 1) if size == DRAFT_MODEL and self.draft is not None else (self.target, size)
            batch_ns = min(self.time(cache, n) for _ in range(n_runs))
            self._samples.setdefault(size, []).append((single_ns, batch_ns))

    def _single(self, n_runs: int) -> float:
        usual = statistics.median(self._singles)
        single_ns = min(self.time(self.target, 1) for _ in range(n_runs))
        if single_ns > _SLOWED_FACTOR * usual:
            single_ns = min(single_ns, *(self.time(self.target, 1) for _ in range(n_runs)))
        self._singles.append(single_ns)
        return single_ns

    @property
    def single_ns(self) -> float:
        """Return the usual nanoseconds of a single token without disturbance."""
        return statistics.median(ns for ns in self._singles if not self._is_slowed(ns))

    def _is_slowed(self, single_ns: float) -> bool:
        return single_ns > _SLOWED_FACTOR * min(self._singles)

    def is_measured(self, size: int) -> bool:
        """Return whether a size has a sample without disturbance."""
        return any(not self._is_slowed(single_ns) for single_ns, _ in self._samples.get(size, ()))

    def _shares(self, size: int) -> list[float]:
        """Return the cost of a batch size in each valid sample, in single tokens."""
        samples = self._samples[size]
        certain = [sample for sample in samples if not self._is_slowed(sample[0])]
        return [batch_ns / single_ns for single_ns, batch_ns in certain or samples]

    def costs(self) -> dict[int, float]:
        """Return the cost of each size in single tokens, at least 1 for the target: each batch reads all weights."""
        return {size: max(float(size > 0), statistics.median(self._shares(size))) for size in self._samples}

    def is_sure(self, size: int) -> bool:
        """Return whether the samples of a size agree, or there are enough of them."""
        shares = self._shares(size) if size in self._samples else []
        return bool(shares) and (len(shares) >= _MAX_SAMPLES or max(shares) <= _AGREEMENT_FACTOR * min(shares))

    def affordable_runs(self, size: int, left_ns: float) -> int:
        """Return how often to run each batch of a sample in the remaining time: twice, once, or never."""
        known = {1: 1.0} | self.costs()
        draft = known.pop(DRAFT_MODEL, 0.0)
        cost = draft if size == DRAFT_MODEL else expand(known, size)[size]
        each_ns = self._singles[-1] * (1.0 + cost)
        return 0 if each_ns > left_ns else 1 if 2 * each_ns > min(left_ns, _SLOW_SAMPLE_SHARE * self.budget_ns) else 2

    # Drafts and context, in nanoseconds

    def prompt_ns(self, draft: TokenCache) -> float:
        """Return the cost of a prompt token in the draft model."""
        length = len(self._text)
        prompt_ns = self.time(draft, length, 1)
        if prompt_ns < _SLOW_SAMPLE_SHARE * self.budget_ns:
            # The first prompt may have set up the kernels.
            prompt_ns = min(prompt_ns, self.time(draft, length, 1))
        per_token = prompt_ns / length
        while 2 * prompt_ns < _SHORT_PROMPT_SHARE * self.budget_ns and 2 * length <= min(draft.n_batch, draft.n_ctx):
            length *= 2
            prompt_ns = min(self.time(draft, length, 1) for _ in range(2))
            per_token = min(per_token, prompt_ns / length)
        return per_token

    def head_costs(self, head: DraftSource) -> tuple[float, float]:
        """Return the cost per drafted token and the fixed cost per draft of draft layers.

        A block is computed in one pass, so nearly all of its cost is fixed. Other layers run once per token.
        """
        sequence = self._text[: _HEAD_PROMPT + 1]
        self.time(self.target, len(sequence) - 1, 1)
        head.catch_up(sequence)
        one, several = (
            min(self._draft_ns(head, sequence, limit) for _ in range(_CONTEXT_REPEATS)) for limit in (1, _HEAD_DRAFT)
        )
        self.target.rollback(0)
        if several < _BLOCK_FACTOR * one:
            per_token = max(_MIN_TOKEN_SHARE * one, several - one) / (_HEAD_DRAFT - 1)
            return per_token, one - per_token
        return several / _HEAD_DRAFT, 0.0

    def _draft_ns(self, head: DraftSource, sequence: Sequence[int], limit: int) -> float:
        if self.cancelled():
            raise Interrupted
        before = self.clock()
        draft = head.draft(sequence, limit, lambda depth, probability: Verdict.TAKE)
        return (self.clock() - before) * limit / max(1, len(draft))

    def fill_ns(self) -> float:
        """Return the nanoseconds to fill the cache for measuring the cost of the context."""
        largest = max(1, *self._samples)
        return _CONTEXT_TOKENS * self._singles[-1] * self.costs().get(largest, 1.0) / largest

    def context_costs(self) -> dict[int, float]:
        """Measure the cost of a cached token at each of `CONTEXT_BATCH_SIZES` over a long context.

        The result is empty if the context is too short, the speed changed meanwhile, or a batch cannot be rolled back.
        """
        target, text = self.target, self._text
        if target.n_rollback < target.n_ctx:
            return {}
        known = {1: 1.0} | {size: cost for size, cost in self.costs().items() if size in CONTEXT_BATCH_SIZES}
        before = self._shortest(0, 1)
        target.rollback(0)
        while len(target) + len(text) <= min(_CONTEXT_TOKENS, target.n_ctx // 2):
            self._time_over(target, len(text), 0)
        length = len(target)
        if not length or len(known) < 2:
            return {}
        # Single tokens at both ends reveal a change of speed in between.
        over = {size: self._shortest(length, size) for size in known}
        over_again, after = self._shortest(length, 1), self._shortest(0, 1)
        single_ns = (before + after) / 2
        growth_ns = max(0.0, min(over[1], over_again) - single_ns)
        if max(abs(after - before), abs(over_again - over[1])) > _STEADY_SHARE * single_ns + _GROWTH_SHARE * growth_ns:
            return {}
        added = {size: max(0.0, over[size] - cost * single_ns) / length for size, cost in known.items()}
        line = expand(added, CONTEXT_BATCH_SIZES[-1])
        return {size: line[size] for size in CONTEXT_BATCH_SIZES}

    def _shortest(self, length: int, size: int) -> float:
        """Return the shortest time of several batches over the first cached tokens, in nanoseconds."""
        least = math.inf
        for _ in range(_CONTEXT_REPEATS):
            self.target.rollback(length)
            least = min(least, self._time_over(self.target, size, size))
        return least
