"""Measured costs of a pair, and their interpolation to all batch sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from app.engine.types import MAX_DRAFT

MAX_BATCH = MAX_DRAFT + 1
"""Largest batch of a step: the longest draft and the token before it."""
CONTEXT_BATCH_SIZES = (1, 8, MAX_DRAFT)
"""Batch sizes at which the cost of a cached token is stored; others are interpolated. CPUs attend token by token, GPUs
read the cache once per batch, and both use other kernels for large batches."""


@dataclass(slots=True)
class CostProfile:
    """The measured costs of a pair, as stored on disk. All times in nanoseconds.

    Attributes:
        batch_ns: Time of a target batch by size, with an empty cache; size 1 is required.
        context_ns: Time that each cached token adds to a batch, by `CONTEXT_BATCH_SIZES`; empty if unknown.
        draft_start_ns: Fixed time per draft, in addition to its tokens; nearly all of the time of a DFlash block.
        max_batch: Largest batch of a step: the target must be able to roll back its draft.
    """

    batch_ns: dict[int, float]
    draft_ns: float = 0.0
    context_ns: dict[int, float] = field(default_factory=dict)
    draft_prompt_ns: float = 0.0
    draft_start_ns: float = 0.0
    max_batch: int = MAX_BATCH


def expand(costs: Mapping[int, float], n: int) -> list[float]:
    """Return the costs of all batch sizes from 1 to n, interpolated linearly; index 0 is unused.

    The cost of size 1 is required. Beyond the largest measured size, each token adds the mean cost per token up to
    there.
    """
    known = sorted(costs)
    out = [0.0]
    for low, high in pairwise(known):
        step = (costs[high] - costs[low]) / (high - low)
        out += [costs[low] + i * step for i in range(high - low)]
    largest = known[-1]
    slope = (costs[largest] - costs[known[0]]) / (largest - known[0]) if largest > known[0] else costs[largest]
    out += [costs[largest] + i * max(0.0, slope) for i in range(n + 1 - largest)]
    return out[: n + 1]
