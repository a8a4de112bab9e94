"""Attribute an unexpected batch time to the machine's speed, its steepness, or the cost of the context.

In one batch they look alike; a Kalman filter separates them over time. The speed wanders and moves all batch sizes
alike. The steepness moves all but the single token. The cost of a cached token is constant, and counts more with a
longer context and a larger batch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from app.engine.types import MAX_DRAFT

CONTEXT_WIDTHS = (1, 8, MAX_DRAFT)
"""Batch sizes at which the cost of a cached token is kept; others are interpolated. CPUs attend token by
token, GPUs read the cache once per batch, and both use other kernels for large batches."""

_NOISE = 0.06
"""Standard deviation of a batch's time, as a share; chosen, not measured, like `_WANDER` and `_UNSEEN`."""
SURPRISING = math.log(1.25)
"""Smallest surprise that is more than noise."""
_WANDER = 0.0134
"""Standard deviation of the speed from one batch to the next. With `_NOISE`, a fifth of a surprise becomes speed."""
_UNSEEN = 0.19
"""Uncertainty of a batch size seen once; it shrinks with the square root of the number of observations."""
_STEEPNESS = 0.25
"""Standard deviation of the steepness. Ten calibrations on a shared machine gave 1.3 to 1.8 single tokens for four: one
token waits for memory, further ones for computing, and other programs use more of the one or the other."""
_STEEPNESS_WANDER = 0.02
"""Standard deviation of the steepness from one batch to the next; chosen."""
STEEPNESS_RETURN = math.sqrt(1.0 - (_STEEPNESS_WANDER / _STEEPNESS) ** 2)
"""Share of the steepness's logarithm that is left a batch later; what lasts belongs to the batch sizes."""
_COMMON, _PER_ROW, _OWN = 5e-5, 2e-4, 0.5
"""Uncertainty of the cost of a cached token before anything was seen, in single tokens over an empty cache: the part
common to a batch, the part per token, and the share by which one batch size may differ. Measured per token on 2 cores:
3.6e-4 for 135 million parameters, 1.9e-4 (Q4_0) and 7e-5 (bf16) for 1.5 billion; GPUs need less."""
_GUESS = 1e-4
"""Assumed cost of a cached token, in single tokens; a CPU's. A GPU is fast enough for calibration to measure it."""
_SURE = 0.3
_LEAST = 1e-6
_SPEED, _STEEP, _FIRST_CELL = 0, 1, 2
_NARROW_CELL = _FIRST_CELL + 1


def guess(plain_ns: float) -> list[float]:
    """Return the assumed cost of a cached token at each of `CONTEXT_WIDTHS`."""
    return [_GUESS * plain_ns * width for width in CONTEXT_WIDTHS]


class Attribution:
    """Distribute surprises; hold only the uncertainties.

    Args:
        plain_ns: A single row behind an empty cache.
        cells: Nanoseconds that a cached token adds at each of `CONTEXT_WIDTHS`, if that was ever measured.
    """

    def __init__(self, plain_ns: float, cells: Sequence[float] | None) -> None:
        common, per_row = _COMMON, _PER_ROW
        if cells is not None:
            common = _SURE * max(_LEAST, cells[0] / plain_ns)
            per_row = _SURE * max(_LEAST, cells[1] / plain_ns / CONTEXT_WIDTHS[1])
        size = _FIRST_CELL + len(CONTEXT_WIDTHS)
        self._covariance = [[0.0] * size for _ in range(size)]
        self._covariance[_SPEED][_SPEED] = _settled()
        self._covariance[_STEEP][_STEEP] = _STEEPNESS**2
        for i, wide in enumerate(CONTEXT_WIDTHS, start=_FIRST_CELL):
            for j, other in enumerate(CONTEXT_WIDTHS, start=_FIRST_CELL):
                own = (_OWN * per_row * wide) ** 2 if i == j else 0.0
                self._covariance[i][j] = (common**2 + per_row**2 * wide * other + own) * plain_ns**2
        self._at_first = self._covariance[_NARROW_CELL][_NARROW_CELL]
        self._was_known = cells is not None

    @property
    def knows_context(self) -> bool:
        """Return whether the cost of a cached token is known."""
        return self._was_known or self._covariance[_NARROW_CELL][_NARROW_CELL] < _SURE**2 * self._at_first

    def doubt_speed(self, surprise: float) -> None:
        """Allow the speed to have changed at once by as much as a surprise."""
        covariance = self._covariance
        covariance[_SPEED][_SPEED] += surprise**2
        covariance[_STEEP][_STEEP] = min(_STEEPNESS**2, covariance[_STEEP][_STEEP] + surprise**2)

    def gains(self, surprise: float, further: float, cached: Sequence[float], n_seen: int | None) -> list[float]:
        """Return the share of a surprise that each unknown takes.

        Args:
            surprise: The logarithm of measured over expected time. A large one may be a disturbance: it counts as a
                less exact measurement.
            further: The share of this batch's time that rows beyond the first take.
            cached: By how much one nanosecond more a cached token, at each of `CONTEXT_WIDTHS`, lengthens this batch,
                as a share of its time.
            n_seen: How often this width was seen before, or None for one whose cost is not in doubt.

        Returns:
            What it adds to the logarithms of the speed factor and of the steepness, and to the nanoseconds at each of
            `CONTEXT_WIDTHS`, as factors of the surprise.
        """
        covariance = self._covariance
        for row in covariance:
            row[_STEEP] *= STEEPNESS_RETURN
        covariance[_STEEP] = [c * STEEPNESS_RETURN for c in covariance[_STEEP]]
        covariance[_SPEED][_SPEED] += _WANDER**2
        covariance[_STEEP][_STEEP] += _STEEPNESS_WANDER**2
        narrow, middle, wide = cached
        # Written out, here and below: loops over five took a fifth of all the time that drafting itself takes.
        moved = [a + b * further + c * narrow + d * middle + e * wide for a, b, c, d, e in covariance]
        at_speed, at_steep, at_narrow, at_middle, at_wide = moved
        noise = _NOISE if n_seen is None else max(_NOISE, _UNSEEN / math.sqrt(1 + n_seen))
        doubt = max(1.0, abs(surprise) / SURPRISING)
        total = at_speed + further * at_steep + narrow * at_narrow + middle * at_middle + wide * at_wide
        total += doubt * noise**2
        gains = [m / total for m in moved]
        self._covariance = [
            [a - g * at_speed, b - g * at_steep, c - g * at_narrow, d - g * at_middle, e - g * at_wide]
            for (a, b, c, d, e), g in zip(covariance, gains, strict=True)
        ]
        return gains


def _settled() -> float:
    """Return the steady uncertainty of the speed under `_WANDER` and `_NOISE`."""
    wander, noise = _WANDER**2, _NOISE**2
    return (math.sqrt(wander**2 + 4 * wander * noise) - wander) / 2
