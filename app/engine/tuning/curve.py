"""What a batch costs on this machine: measured, kept, corrected while it runs.

The cost of a batch of m rows is a staircase, not a line: kernels work in groups, so four rows can cost less than
three, and nothing here assumes otherwise. Model (all in nanoseconds, L tokens in the cache):

    T(m; L) = scale * (rows[m] + L * (per_cell + m * per_cell_row)) + switch  if the width differs from the last one

`scale` follows clocks, heat and other load within a few rounds; `rows` follows slowly, by robust means per width.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from app.engine.types import MAX_DRAFT

MAX_ROWS = MAX_DRAFT + 1
"""Widest verify batch: the longest draft and the token before it."""
PROFILE_WIDTHS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17, 24, 32, 33, 48, 64)
"""Widths worth measuring: every small one, then both sides of the steps that kernels are known to have."""

_SCALE_GAIN = 0.2
_SCALE_CLIP = math.log(1.25)
_ROW_CLIP = 1.25
_SHIFT = 3
"""Single rows in a row, all off by more than the clip in the same direction, that are no disturbance but another speed:
other programs came or went, and so did threads. It is taken over at once, else drafts would be judged by old times.
Wider batches do not tell: where text repeats itself, many of them follow each other, and what one costs behind a long
context is known less well."""
_ROW_GAIN = 0.03
_DRAFT_GAIN = 0.1
_SWITCH_GAIN = 0.05
_WINDOW = 5
_FIRST_LOOK = 2
"""Batches after which a width that was only guessed from its neighbours counts as measured."""
_CALIBRATION_WEIGHT = 2.0
"""Batches or drafts that a measured cost counts for when it is seen again; one bad moment must not decide for long."""
_TRUSTED = 8
_NOTICEABLE = 0.005
"""Share of a cost that it must have moved by for the others between it and its neighbours to be reckoned anew: that
takes longer than all the rest of a round."""


@dataclass(slots=True)
class CostProfile:
    """The measured costs of a pair, as kept on disk.

    Attributes:
        rows: Nanoseconds of a target batch by width, at an empty cache, with the width of the batch before.
        draft_ns: Nanoseconds of one drafted token.
        switch_ns: What a change of width adds.
        per_cell: Nanoseconds that each token in the cache adds to a batch.
        per_cell_row: What it adds per row besides.
        draft_prompt_ns: Nanoseconds of one prompt token in the draft model.
    """

    rows: dict[int, float]
    draft_ns: float = 0.0
    switch_ns: float = 0.0
    per_cell: float = 0.0
    per_cell_row: float = 0.0
    draft_prompt_ns: float = 0.0


@dataclass(slots=True)
class CostModel:
    """Predicts the cost of a batch and learns from every one that ran.

    Attributes:
        profile: What was measured; `rows` must hold width 1.
    """

    profile: CostProfile
    scale: float = 1.0
    _recent: dict[int, deque[float]] = field(default_factory=dict)
    _seen: dict[int, int] = field(default_factory=dict)
    _drafts: int = 0
    _surprises: deque[float] = field(default_factory=lambda: deque(maxlen=_SHIFT))
    _table: list[float] = field(default_factory=list)
    _padded: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._rebuild()

    def target_ns(self, rows: int, n_past: int, *, switched: bool = False) -> float:
        """Expected nanoseconds of a target batch of `rows` rows over `n_past` cached tokens."""
        return self.scale * (self._table[rows] + self._context_ns(rows, n_past)) + (
            self.profile.switch_ns if switched else 0.0
        )

    def padded_ns(self, rows: int, n_past: int) -> float:
        """The cost of the cheapest batch of at least `rows` rows: where wider is cheaper, it can be filled up."""
        return self.scale * (self._padded[rows] + self._context_ns(rows, n_past))

    @property
    def draft_ns(self) -> float:
        """Expected nanoseconds of one drafted token."""
        return self.scale * self.profile.draft_ns

    def observe_target(self, rows: int, n_past: int, ns: float, *, switched: bool) -> None:
        """Learn from one target batch, everything around it included."""
        expected = self.target_ns(rows, n_past, switched=switched)
        surprise = math.log(max(ns, 1.0) / max(expected, 1.0))
        seen = self._seen[rows] = self._seen.get(rows, 0) + 1
        # A width that was hardly seen says more about its own cost than about the machine's speed.
        trust = 1.0 if rows == 1 else min(1.0, seen / _TRUSTED)
        if rows == 1 and (shift := self._shift(surprise)):
            self.scale *= math.exp(shift)
            return
        self.scale *= math.exp(trust * _SCALE_GAIN * max(-_SCALE_CLIP, min(_SCALE_CLIP, surprise)))
        if switched:
            plain = self.target_ns(rows, n_past)
            # A change of width is far below a step of the staircase; more is something else.
            bound = 0.25 * self.target_ns(1, n_past)
            extra = max(0.0, min(ns - plain, bound))
            self.profile.switch_ns += _SWITCH_GAIN * (extra - self.profile.switch_ns)
            ns -= self.profile.switch_ns
        base = ns / self.scale - self._context_ns(rows, n_past)
        recent = self._recent.setdefault(rows, deque(maxlen=_WINDOW))
        recent.append(base)
        if len(recent) >= _FIRST_LOOK:
            known = self.profile.rows.get(rows, self._table[rows])
            learning = max(_ROW_GAIN, 1.0 / (_CALIBRATION_WEIGHT + seen))
            # The single row is what all others are told in: what moves it is the machine, and that is `scale`.
            gain = 1.0 if rows not in self.profile.rows else _ROW_GAIN if rows == 1 else learning
            usual = statistics.median(recent)
            if rows == 1:
                usual = max(known / _ROW_CLIP, min(_ROW_CLIP * known, usual))
            self.profile.rows[rows] = known = known + gain * (usual - known)
            if abs(known - self._table[rows]) > _NOTICEABLE * known:
                self._rebuild()

    def _shift(self, surprise: float) -> float:
        """By how much the speed has changed, as the logarithm of a factor; 0 if it has not."""
        self._surprises.append(surprise)
        inside = min(self._surprises) <= _SCALE_CLIP and max(self._surprises) >= -_SCALE_CLIP
        if inside or len(self._surprises) < _SHIFT:
            return 0.0
        mildest = min(self._surprises, key=abs)
        self._surprises.clear()
        # What widths cost was seen at a speed that was not known yet.
        self._recent.clear()
        return mildest

    def observe_draft(self, n_tokens: int, ns: float) -> None:
        """Learn from `n_tokens` drafted one after the other."""
        if n_tokens:
            per_token = ns / n_tokens / self.scale
            if not self.profile.draft_ns:
                self.profile.draft_ns = per_token
            clipped = min(per_token, 3 * self.profile.draft_ns)
            self._drafts += 1
            gain = max(_DRAFT_GAIN, 1.0 / (_CALIBRATION_WEIGHT + self._drafts))
            self.profile.draft_ns += gain * (clipped - self.profile.draft_ns)

    def _context_ns(self, rows: int, n_past: int) -> float:
        return n_past * (self.profile.per_cell + rows * self.profile.per_cell_row)

    def _rebuild(self) -> None:
        self._table = expand(self.profile.rows, MAX_ROWS)
        self._padded = envelope(self._table)


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
