"""What a surprising time is put down to: the machine's speed, its steepness, or what the context costs.

They look alike in any one batch. They are told apart as a Kalman filter does it, by what else is known of each: the
speed wanders, so only its last moments count, and it moves every width alike; the steepness moves all but the single
row; what a cached token costs stays as it is, and weighs more the longer the context and the wider the batch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from app.engine.types import MAX_DRAFT

CONTEXT_WIDTHS = (1, 8, MAX_DRAFT)
"""Widths at which the cost of a cached token is kept; between them it is interpolated. Processors attend row by row,
other devices read the cache once for all rows, and both have other kernels for wide batches."""

_NOISE = 0.06
"""Standard deviation that a batch's time is taken to have, as a share of it; chosen, like `_WANDER` and `_UNSEEN`, not
measured."""
SURPRISING = math.log(1.25)
"""A surprise that is more than noise."""
_WANDER = 0.0134
"""By how much the speed wanders from one batch to the next, as a share of it. With `_NOISE`, a fifth of a surprise
behind an empty cache becomes speed."""
_UNSEEN = 0.19
"""A width seen n times is taken to be known to within this share over the root of n: a surprise at one that was hardly
seen says more about it than about the machine."""
_STEEPNESS = 0.25
"""Standard deviation of the steepness, the cost of further rows as a factor of what was measured. Ten measurements of
one pair on a shared machine gave four rows for 1.3 to 1.8 single ones: a single row waits for memory and further ones
for computing, and neighbours take now more of the one, now of the other."""
_STEEPNESS_WANDER = 0.02
"""By how much the steepness wanders from one batch to the next; chosen, like the others."""
STEEPNESS_RETURN = math.sqrt(1.0 - (_STEEPNESS_WANDER / _STEEPNESS) ** 2)
"""Which part of the steepness's logarithm is left a batch later: what lasts belongs to the widths themselves."""
_COMMON, _PER_ROW, _OWN = 5e-5, 2e-4, 0.5
"""How uncertain the cost of a cached token is before anything was seen, in single rows of an empty cache: what it adds
for all rows together, for each of them, and by which share of the latter one width may differ from the others. A model
of 135 million parameters takes 3.6e-4 a row on two cores, one of 1.5 billion 1.9e-4 (Q4_0) and 7e-5 (BF16), large ones
and graphics cards less."""
_GUESS = 1e-4
"""What a cached token is taken to cost each row, in single rows, until something is known. A processor's figure: a card
is fast enough for the first measurement to find out."""
_SURE = 0.3
_LEAST = 1e-6
_SPEED, _STEEP, _FIRST_CELL = 0, 1, 2
_NARROW_CELL = _FIRST_CELL + 1


def guess(plain_ns: float) -> list[float]:
    """What a cached token may cost at each of `CONTEXT_WIDTHS`, before anything was seen."""
    return [_GUESS * plain_ns * width for width in CONTEXT_WIDTHS]


class Attribution:
    """Shares out surprises; remembers only how uncertain everything is.

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
        """Whether what was seen says what a cached token costs, or what was known before does."""
        return self._was_known or self._covariance[_NARROW_CELL][_NARROW_CELL] < _SURE**2 * self._at_first

    def doubt_speed(self, surprise: float) -> None:
        """The speed may have changed by as much as a surprise, all at once, and not for all widths alike."""
        covariance = self._covariance
        covariance[_SPEED][_SPEED] += surprise**2
        covariance[_STEEP][_STEEP] = min(_STEEPNESS**2, covariance[_STEEP][_STEEP] + surprise**2)

    def gains(self, surprise: float, further: float, cached: Sequence[float], n_seen: int | None) -> list[float]:
        """Which part of a surprise each unknown takes.

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
    """The uncertainty of the speed that `_WANDER` and `_NOISE` settle at."""
    wander, noise = _WANDER**2, _NOISE**2
    return (math.sqrt(wander**2 + 4 * wander * noise) - wander) / 2
