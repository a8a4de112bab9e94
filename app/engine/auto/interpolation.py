"""From the widths of batches that were measured to all widths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise


def envelope(costs: Sequence[float]) -> list[float]:
    """The cost of the cheapest batch at least as wide, by width; index 0 is unused."""
    out = list(costs)
    for rows in range(len(out) - 2, 0, -1):
        out[rows] = min(out[rows], out[rows + 1])
    return out


def expand(rows: Mapping[int, float], n: int) -> list[float]:
    """Costs of every width from 1 to n: measured ones as they are, the rest on the line between neighbours.

    Beyond the widest measured one the cost grows by the mean cost of a row up to there.

    Args:
        rows: At least width 1.
        n: Widest width wanted.

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
