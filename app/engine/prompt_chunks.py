"""Choose how many prompt tokens a batch has, so that a stop is obeyed soon.

A long batch reads the weights once for many tokens. The CPU ends a batch in the middle when the user stops it, but
other devices compute every batch to its end, and those that wait in their queue.
"""

from __future__ import annotations

import math

_FAST_NS = 2_000_000_000
"""A batch that can be stopped and takes less time is followed by one twice as long."""
_LONGEST_NS = 250_000_000
"""Longest time of a batch that cannot be stopped."""
_LONGEST_QUEUE_NS = 125_000_000
"""Time of queued batches from which their end is awaited. A faster device goes on without a pause."""
_SHORTEST = 32
_SLOWDOWN_LIMIT = 1.5
"""Ratio of the times per token in shorter and in longer batches from which shorter ones are not worth it. With experts
in RAM, every batch may copy them to the GPU, however short it is."""
_MIN_TIMED_TOKENS = 32
"""Fewest tokens of a prompt that measure the speed, where a whole batch has more."""


class PromptChunks:
    """Number of tokens of the next batch, from the times of earlier ones.

    Args:
        first: Tokens of the first batch.
        longest: Most tokens of a batch.
        stops_inside: Whether a stop ends a batch in the middle. Then each prompt begins with a batch of `first`, so
            that its batches do not depend on earlier prompts.

    Attributes:
        size: Tokens of the next batch.
        ns_per_token: Nanoseconds of a prompt token in the last batches; None before the first.
    """

    def __init__(self, first: int, longest: int, *, stops_inside: bool) -> None:
        self.size = self._first = first
        self._longest = longest
        self._stops_inside = stops_inside
        self.ns_per_token: float | None = None
        self._by_size: dict[int, float] = {}
        """Nanoseconds per token by the size of the batch."""
        self._is_long = False

    def begin(self) -> None:
        """Start a prompt."""
        if self._stops_inside:
            self.size = self._first

    def must_wait(self, n_queued: int) -> bool:
        """Return whether the device has to compute the queued tokens before it gets more."""
        if self._stops_inside:
            return False
        return self.ns_per_token is None or n_queued * self.ns_per_token > _LONGEST_QUEUE_NS

    def observe(self, n_tokens: int, ns: int) -> None:
        """Learn from the time of one batch, or of several that were queued."""
        if n_tokens >= min(_MIN_TIMED_TOKENS, self.size):
            self.ns_per_token = ns / n_tokens
        if n_tokens < self.size:
            # The rest of a prompt says little about longer batches.
            return
        each_ns = max(1.0, ns / n_tokens)
        growth = self._growth(each_ns)
        size = self._longest if self._is_long else int(growth * self.size)
        self.size = max(min(_SHORTEST, self._first), min(self._longest, size))

    def _growth(self, each_ns: float) -> float:
        """Return the factor from this size, with this time per token, to the next one."""
        if self._stops_inside:
            return 2.0 if self.size * each_ns < _FAST_NS else 1.0
        known = self._by_size
        if each_ns > _SLOWDOWN_LIMIT * known.get(self.size, math.inf):
            known.clear()
            self._is_long = False
        known[self.size] = each_ns
        growth = 2.0 ** math.floor(math.log2(_LONGEST_NS / (self.size * each_ns)))
        longer = min((ns for size, ns in known.items() if size > self.size), default=None)
        shorter = min((ns for size, ns in known.items() if size < self.size), default=0.0)
        if longer is None and growth == 1.0:
            # Twice as long, it takes at most half a second, and perhaps hardly more than now.
            growth = 2.0
        is_faster = longer is not None and each_ns > _SLOWDOWN_LIMIT * longer
        self._is_long = self._is_long or is_faster or (growth < 1.0 and shorter > _SLOWDOWN_LIMIT * each_ns)
        return growth
