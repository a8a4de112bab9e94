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
_SHORTEST = 16
_FEWEST_TIMED = 32
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
        if n_tokens >= min(_FEWEST_TIMED, self.size):
            self.ns_per_token = ns / n_tokens
        if n_tokens < self.size:
            # The rest of a prompt says little about longer batches.
            return
        batch_ns = max(1.0, self.size * ns / n_tokens)
        if not self._stops_inside:
            growth = 2.0 ** math.floor(math.log2(_LONGEST_NS / batch_ns))
        elif batch_ns < _FAST_NS:
            growth = 2.0
        else:
            return
        self.size = max(min(_SHORTEST, self._first), min(self._longest, int(growth * self.size)))
