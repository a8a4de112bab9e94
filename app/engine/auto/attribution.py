"""Attribute an unexpected batch time to the machine's speed, its steepness, or the cost of the context.

A Kalman filter separates them over time; in a single batch they look alike. The speed drifts and affects all batch
sizes equally. The steepness affects all batches of several tokens. The cost of a cached token is constant, and counts
more with a longer context and a larger batch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from app.engine.auto.cost_profile import CONTEXT_BATCH_SIZES

_BATCH_NOISE = 0.06
"""Relative standard deviation of a batch's time. This and the next two values are chosen, not measured."""
LARGE_RESIDUAL = math.log(1.25)
"""Smallest residual that is more than noise."""
_SPEED_DRIFT = 0.0134
"""Standard deviation of the speed per batch. With `_BATCH_NOISE`, a fifth of a residual becomes speed."""
_UNSEEN_DEVIATION = 0.19
"""Uncertainty of a batch size seen once; it shrinks with the square root of the number of observations."""
_STEEPNESS_DEVIATION = 0.25
"""Standard deviation of the steepness. In ten measurements on a shared machine, four tokens cost 1.3 to 1.8 times a
single token. A single token is limited by memory bandwidth, further tokens by arithmetic; other programs use both
unequally."""
_STEEPNESS_DRIFT = 0.02
"""Standard deviation of the steepness from one batch to the next; chosen."""
STEEPNESS_RETURN = math.sqrt(1.0 - (_STEEPNESS_DRIFT / _STEEPNESS_DEVIATION) ** 2)
"""Factor by which the steepness's logarithm shrinks per batch; a lasting difference belongs to the batch sizes."""
_COMMON_CONTEXT_DEVIATION, _CONTEXT_DEVIATION_PER_TOKEN, _BATCH_SIZE_SHARE = 5e-5, 2e-4, 0.5
"""Initial uncertainty of the cost of a cached token, as a share of a single token's time: the part common to a batch,
the part per token, and the relative difference between batch sizes. Measured per token on 2 cores: 3.6e-4 for 135
million parameters, 1.9e-4 (Q4_0) and 7e-5 (bf16) for 1.5 billion; GPUs need less."""
_ASSUMED_CACHED_TOKEN_COST = 1e-4
"""Assumed cost of a cached token on a CPU, as a share of a single token's time. GPUs are measured."""
_KNOWN_DEVIATION = 0.3
"""Relative uncertainty below which the cost of a cached token counts as known."""
_MIN_COST_SHARE = 1e-6
_SPEED_INDEX, _STEEPNESS_INDEX, _FIRST_CONTEXT_INDEX = 0, 1, 2
_MIDDLE_CONTEXT = _FIRST_CONTEXT_INDEX + 1


def guess(single_ns: float) -> list[float]:
    """Return the assumed cost of a cached token at each of `CONTEXT_BATCH_SIZES`."""
    return [_ASSUMED_CACHED_TOKEN_COST * single_ns * size for size in CONTEXT_BATCH_SIZES]


class Attribution:
    """Kalman filter over speed, steepness and context costs; it holds only the covariance.

    Args:
        single_ns: Time of a single token with an empty cache.
        context_ns: Time that a cached token adds at each of `CONTEXT_BATCH_SIZES`; None if never measured.
    """

    def __init__(self, single_ns: float, context_ns: Sequence[float] | None) -> None:
        common, per_token = _COMMON_CONTEXT_DEVIATION, _CONTEXT_DEVIATION_PER_TOKEN
        if context_ns is not None:
            common = _KNOWN_DEVIATION * max(_MIN_COST_SHARE, context_ns[0] / single_ns)
            per_token = _KNOWN_DEVIATION * max(_MIN_COST_SHARE, context_ns[1] / single_ns / CONTEXT_BATCH_SIZES[1])
        n = _FIRST_CONTEXT_INDEX + len(CONTEXT_BATCH_SIZES)
        self._covariance = [[0.0] * n for _ in range(n)]
        # The steady state under `_SPEED_DRIFT` and `_BATCH_NOISE`.
        wander, noise = _SPEED_DRIFT**2, _BATCH_NOISE**2
        self._covariance[_SPEED_INDEX][_SPEED_INDEX] = (math.sqrt(wander**2 + 4 * wander * noise) - wander) / 2
        self._covariance[_STEEPNESS_INDEX][_STEEPNESS_INDEX] = _STEEPNESS_DEVIATION**2
        for i, size in enumerate(CONTEXT_BATCH_SIZES, start=_FIRST_CONTEXT_INDEX):
            for j, other in enumerate(CONTEXT_BATCH_SIZES, start=_FIRST_CONTEXT_INDEX):
                own = (_BATCH_SIZE_SHARE * per_token * size) ** 2 if i == j else 0.0
                self._covariance[i][j] = (common**2 + per_token**2 * size * other + own) * single_ns**2
        self._first_variance = self._covariance[_MIDDLE_CONTEXT][_MIDDLE_CONTEXT]
        self._was_known = context_ns is not None

    @property
    def knows_context(self) -> bool:
        """Return whether the cost of a cached token is known."""
        return (
            self._was_known
            or self._covariance[_MIDDLE_CONTEXT][_MIDDLE_CONTEXT] < _KNOWN_DEVIATION**2 * self._first_variance
        )

    def add_speed_variance(self, residual: float) -> None:
        """Allow the speed to have changed suddenly by as much as a residual."""
        covariance = self._covariance
        covariance[_SPEED_INDEX][_SPEED_INDEX] += residual**2
        covariance[_STEEPNESS_INDEX][_STEEPNESS_INDEX] = min(
            _STEEPNESS_DEVIATION**2, covariance[_STEEPNESS_INDEX][_STEEPNESS_INDEX] + residual**2
        )

    def update(self, residual: float, further: float, context: Sequence[float], n_seen: int | None) -> list[float]:
        """Update the covariance with one batch and return the Kalman gains.

        Args:
            residual: The logarithm of measured over expected time. A large residual may be a disturbance, so it counts
                as a less exact measurement.
            further: The share of the batch's time after the first token.
            context: For each of `CONTEXT_BATCH_SIZES`, the share by which the batch slows down if a cached token costs
                one nanosecond more.
            n_seen: How often this batch size was seen before; None if its cost is certain.

        Returns:
            Gains, to be multiplied by the residual: for the logarithms of speed and steepness, and for the nanoseconds
            at each of `CONTEXT_BATCH_SIZES`.
        """
        covariance = self._covariance
        for row in covariance:
            row[_STEEPNESS_INDEX] *= STEEPNESS_RETURN
        covariance[_STEEPNESS_INDEX] = [c * STEEPNESS_RETURN for c in covariance[_STEEPNESS_INDEX]]
        covariance[_SPEED_INDEX][_SPEED_INDEX] += _SPEED_DRIFT**2
        covariance[_STEEPNESS_INDEX][_STEEPNESS_INDEX] += _STEEPNESS_DRIFT**2
        small, middle, large = context
        # Unrolled, like the loops below: loops over five took a fifth of the drafting overhead.
        moved = [a + b * further + c * small + d * middle + e * large for a, b, c, d, e in covariance]
        at_speed, at_steep, at_small, at_middle, at_large = moved
        noise = _BATCH_NOISE if n_seen is None else max(_BATCH_NOISE, _UNSEEN_DEVIATION / math.sqrt(1 + n_seen))
        doubt = max(1.0, abs(residual) / LARGE_RESIDUAL)
        total = at_speed + further * at_steep + small * at_small + middle * at_middle + large * at_large
        total += doubt * noise**2
        gains = [m / total for m in moved]
        self._covariance = [
            [a - g * at_speed, b - g * at_steep, c - g * at_small, d - g * at_middle, e - g * at_large]
            for (a, b, c, d, e), g in zip(covariance, gains, strict=True)
        ]
        return gains
