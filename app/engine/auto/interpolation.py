"""Interpolate measured costs to all batch sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise


def envelope(costs: Sequence[float]) -> list[float]:
    """Return the cost of the cheapest batch at least as large, by size; index 0 is unused."""
    out = list(costs)
    for rows in range(len(out) - 2, 0, -1):
        out[rows] = min(out[rows], out[rows + 1])
    return out


def expand(rows: Mapping[int, float], n: int) -> list[float]:
    """Return the costs of all batch sizes from 1 to n, interpolated linearly.

    Beyond the largest measured one, each token adds the mean cost of a token up to there.

    Args:
        rows: Measured costs by batch size; 1 is required.
        n: Largest batch size.

    Returns:
        A list of n + 1 costs; index 0 is unused.
    """
    known = sorted(rows)
    out = [0.0]
    for low, high in pairwise(known):
        step = (rows[high] - rows[low]) / (high - low)
        out += [rows[low] + i * step for i in range(high - low)]
    widest = known[-1]
    slope = (rows[widest] - rows[known[0]]) / (widest - known[0]) if widest > known[0] else rows[widest]
    out += [rows[widest] + i * max(0.0, slope) for i in range(n + 1 - widest)]
    return out[: n + 1]
