"""Predict what a batch costs on this machine, and correct the prediction with every batch that ran.

The cost of a batch of m tokens is a staircase, not a line: kernels work in groups, so four tokens can cost less than
three. Model, in nanoseconds, with L tokens in the cache:

    T(m; L) = scale * (rows[1] + steepness * (rows[m] - rows[1]) + L * cells[m])

`scale` follows clocks, heat and other load within a few steps. `steepness` is the cost of further tokens beside the
first. `cells` is the cost of a cached token. `rows` follows slowly, by medians per batch size.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from dataclasses import dataclass, field

from app.engine.auto.attribution import CONTEXT_WIDTHS, STEEPNESS_RETURN, SURPRISING, Attribution, guess
from app.engine.auto.interpolation import envelope, expand
from app.engine.types import MAX_DRAFT

MAX_ROWS = MAX_DRAFT + 1
"""Largest batch of a step: the longest draft and the token before it."""

_ROW_CLIP = 1.25
_SHIFT = 3
"""Consecutive single-token steps, all off by more than noise in one direction, that are a new speed of the machine.
It is taken over at once, else drafts would be judged by old times."""
_IMPOSSIBLE = 0.6
"""A batch that takes less than this share of a single token's time shows that the machine is faster than assumed."""
_ROW_GAIN = 0.03
_DRAFT_GAIN = 0.1
_FEWEST_READ = 16
"""Fewest prompt tokens that measure the prefill speed; fewer take about as long as one."""
_READING_CLIP = 3.0
_WINDOW = 5
_FIRST_LOOK = 2
"""Batches after which a batch size that was only interpolated counts as measured."""
_NOTICEABLE = 0.005
"""A smaller change does not rebuild the table, which takes longer than the rest of a step."""


@dataclass(slots=True)
class CostProfile:
    """The measured costs of a pair, as stored on disk. All times in nanoseconds.

    Attributes:
        rows: Time of a target batch by its number of tokens, at an empty cache.
        draft_ns: Time of one drafted token.
        cells: Time that each cached token adds to a batch, at each of `CONTEXT_WIDTHS`; empty if unknown.
        draft_prompt_ns: Time of one prompt token in the draft model.
        widest: Largest batch that may run: a draft must be as short as the target can roll back.
    """

    rows: dict[int, float]
    draft_ns: float = 0.0
    cells: dict[int, float] = field(default_factory=dict)
    draft_prompt_ns: float = 0.0
    widest: int = MAX_ROWS


@dataclass(slots=True)
class CostModel:
    """Predict the cost of a batch and learn from each one.

    Attributes:
        profile: The measurement; `rows` must hold 1.
        scale: The machine's time for anything, over the measured one.
        steepness: The same for further tokens of a batch, as another factor.
    """

    profile: CostProfile
    scale: float = 1.0
    steepness: float = 1.0
    _recent: dict[int, deque[float]] = field(default_factory=dict)
    _seen: dict[int, int] = field(default_factory=dict)
    _surprises: deque[float] = field(default_factory=lambda: deque(maxlen=_SHIFT))
    _table: list[float] = field(default_factory=list)
    _cells: list[float] = field(default_factory=list)
    _line: list[float] = field(default_factory=list)
    _padded: list[float] = field(default_factory=list)
    _line_for: int = -1
    _too_fast: float = 1.0
    _attribution: Attribution = field(init=False)
    _n_threads: int = 0
    _factors: dict[int, tuple[float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        known, single_ns = self.profile.cells, self.profile.rows[1]
        line = expand(known, CONTEXT_WIDTHS[-1]) if known else []
        self._cells = [line[width] for width in CONTEXT_WIDTHS] if known else guess(single_ns)
        self._attribution = Attribution(single_ns, self._cells if known else None)
        self._rebuild()

    def use_threads(self, n_threads: int) -> None:
        """Switch to the last scale and steepness for this thread count."""
        if n_threads != self._n_threads:
            self._factors[self._n_threads] = self.scale, self.steepness
            self.scale, self.steepness = self._factors.get(n_threads, (self.scale, self.steepness))
            self._n_threads, self._line_for = n_threads, -1

    def target_ns(self, rows: int, n_past: int) -> float:
        """Return the expected time of a target batch of `rows` tokens over `n_past` cached ones."""
        if n_past == self._line_for and rows < len(self._line):
            return self.scale * self._line[rows]
        return self.scale * (self._steep(self._table[rows]) + self._context_ns(rows, n_past))

    def batches_ns(self, widest: int, n_past: int) -> list[float]:
        """Return `target_ns` of each batch size up to `widest`; index 0 is unused."""
        scale = self.scale
        return [scale * ns for ns in self._line_to(widest, n_past)[: widest + 1]]

    def _line_to(self, widest: int, n_past: int) -> list[float]:
        """Return the unscaled costs of at least `widest` batch sizes, cached until something is learned."""
        if n_past != self._line_for:
            self._line, self._padded, self._line_for = [], [], n_past
        line = self._line
        for rows in range(len(line), widest + 1):
            line.append(self._steep(self._table[rows]) + self._context_ns(rows, n_past))
        return line

    def padded_ns(self, rows: int, n_past: int) -> float:
        """Return the cost of the cheapest batch of at least `rows` tokens: a batch can be filled up."""
        return self.scale * self._padded_line(n_past)[rows]

    def padded_batches_ns(self, narrowest: int, widest: int, n_past: int) -> list[float]:
        """Return `padded_ns` of each batch size from `narrowest` to `widest`."""
        scale = self.scale
        return [scale * ns for ns in self._padded_line(n_past)[narrowest : widest + 1]]

    def _padded_line(self, n_past: int) -> list[float]:
        line = self._line_to(MAX_ROWS, n_past)
        if not self._padded:
            self._padded = envelope(line)
        return self._padded

    def draft_ns(self, n_past: int) -> float:
        """Return the expected time of a drafted token; context slows a draft model like a single token's batch."""
        return self.scale * self.profile.draft_ns * (1.0 + self._context_ns(1, n_past) / self._table[1])

    def rows_at(self, n_past: int) -> dict[int, float]:
        """Return the expected time of each measured batch size over `n_past` cached tokens."""
        return {width: self.target_ns(width, n_past) for width in sorted(self.profile.rows)}

    def snapshot(self) -> CostProfile:
        """Return the present knowledge as a profile measured at the present speed."""
        old, scale = self.profile, self.scale
        cells = dict(zip(CONTEXT_WIDTHS, self._cells, strict=True)) if self._attribution.knows_context else {}
        return CostProfile(
            {width: scale * self._steep(ns) for width, ns in old.rows.items()},
            draft_ns=old.draft_ns * scale,
            cells={width: ns * scale for width, ns in cells.items()},
            draft_prompt_ns=old.draft_prompt_ns * scale,
            widest=old.widest,
        )

    def observe_target(self, rows: int, n_past: int, ns: float) -> None:
        """Learn from the time of one target batch."""
        self._speed_up(n_past, ns)
        surprise = math.log(max(ns, 1.0) / max(self.target_ns(rows, n_past), 1.0))
        if rows == 1 and (shift := self._shift(surprise)):
            self._attribution.doubt_speed(shift)
            self._attribute(rows, n_past, shift)
            return
        self._attribute(rows, n_past, surprise)
        self._seen[rows] = self._seen.get(rows, 0) + 1
        context = self._context_ns(rows, n_past)
        recent = self._recent.setdefault(rows, deque(maxlen=_WINDOW))
        one = self._table[1]
        further = ns / self.scale - context - one
        if rows > 1 and further > 0.0:
            further /= self.steepness
        # Each batch reads all weights, so it takes at least half of a single token.
        recent.append(one + max(further, -0.5 * one))
        if len(recent) >= _FIRST_LOOK:
            known = self.profile.rows.get(rows, self._table[rows])
            gain = _ROW_GAIN if rows in self.profile.rows else 1.0
            # One of two may have been disturbed: the present estimate decides.
            usual = statistics.median(recent if len(recent) > 2 else [*recent, known])
            if rows == 1:
                usual = max(known / _ROW_CLIP, min(_ROW_CLIP * known, usual))
            # Where most of the time is the context's, the rest says little about the batch size.
            self.profile.rows[rows] = known = known + gain * known / (known + context) * (usual - known)
            if abs(known - self._table[rows]) > _NOTICEABLE * known:
                self._rebuild()

    def correct_single_row(self, factor: float) -> None:
        """Multiply the cost of a single token, and leave each other batch size as it is."""
        rows = self.profile.rows
        before, now = rows[1], factor * rows[1]
        # Costs of further tokens are stored relative to the first, and steepened.
        moved = (now - before) * (1.0 - 1.0 / self.steepness)
        self.profile.rows = {width: ns + moved for width, ns in rows.items()} | {1: now}
        for width in self._recent.keys() - {1}:
            self._recent[width] = deque((ns + moved for ns in self._recent[width]), maxlen=_WINDOW)
        self._rebuild()

    def _attribute(self, rows: int, n_past: int, surprise: float) -> None:
        """Let speed, steepness and context cost take their shares of a surprise."""
        one, row = self._table[1], self._steep(self._table[rows])
        expected = row + self._context_ns(rows, n_past)
        cached = [n_past * weight / expected for weight in _WEIGHTS[rows]]
        n_seen = self._seen.get(rows, 0) if rows > 1 else None
        further = max(0.0, row - one) / expected
        speed, steep, *cells = self._attribution.gains(surprise, further, cached, n_seen)
        self.scale *= math.exp(speed * surprise)
        self.steepness = self.steepness**STEEPNESS_RETURN * math.exp(steep * surprise)
        self._line_for = -1
        for i, gain in enumerate(cells):
            self._cells[i] = max(0.0, self._cells[i] + gain * surprise)

    def _shift(self, surprise: float) -> float:
        """Return by how much the speed has changed, as the logarithm of a factor; 0 if it has not."""
        self._surprises.append(surprise)
        inside = min(self._surprises) <= SURPRISING and max(self._surprises) >= -SURPRISING
        if inside or len(self._surprises) < _SHIFT:
            return 0.0
        mildest = min(self._surprises, key=abs)
        self._surprises.clear()
        # These were seen at an unknown speed.
        self._recent.clear()
        return mildest

    def _speed_up(self, n_past: int, ns: float) -> None:
        """Take over a speed at which batches take less than a single token should.

        Two in a row must agree: a clock that stood still with the machine may have left out a part of one.
        """
        share = ns / self.target_ns(1, n_past)
        milder, self._too_fast = max(share, self._too_fast), share
        if milder < _IMPOSSIBLE:
            self.scale *= milder
            self._too_fast = 1.0
            self._recent.clear()
            self._surprises.clear()
            self._line_for = -1

    def observe_draft(self, n_tokens: int, n_past: int, ns: float) -> None:
        """Learn from the time of `n_tokens` drafted one after the other."""
        if n_tokens:
            per_token = ns / n_tokens * self._table[1] / self.target_ns(1, n_past)
            if not self.profile.draft_ns:
                self.profile.draft_ns = per_token
            clipped = min(per_token, 3 * self.profile.draft_ns)
            self.profile.draft_ns += _DRAFT_GAIN * (clipped - self.profile.draft_ns)

    def observe_reading(self, n_tokens: int, ns: float) -> None:
        """Learn from the time of `n_tokens` prompt tokens that the draft model read at once.

        The first takes as long as a drafted one; where that is most of the time, a short prompt says nothing.
        """
        if n_tokens < _FEWEST_READ or 2.0 * self.scale * self.profile.draft_ns > ns:
            return
        per_token = (ns / self.scale - self.profile.draft_ns) / n_tokens
        known = self.profile.draft_prompt_ns or per_token
        clipped = min(per_token, _READING_CLIP * known)
        gain = n_tokens / (n_tokens + MAX_ROWS)
        self.profile.draft_prompt_ns = known + gain * (clipped - known)

    def _steep(self, ns: float) -> float:
        further = ns - self._table[1]
        return self._table[1] + self.steepness * further if further > 0.0 else ns

    def _context_ns(self, rows: int, n_past: int) -> float:
        # Written out: a loop over three would take longer than the rest of a prediction.
        narrow, middle, wide = _WEIGHTS[rows]
        cells = self._cells
        return n_past * (narrow * cells[0] + middle * cells[1] + wide * cells[2])

    def _rebuild(self) -> None:
        widest = self.profile.widest
        # A batch that cannot run is infinitely expensive.
        self._table = expand(self.profile.rows, MAX_ROWS)[: widest + 1] + [math.inf] * (MAX_ROWS - widest)
        self._line_for = -1


def _weights() -> list[tuple[float, ...]]:
    """Return the weight of each of `CONTEXT_WIDTHS` in the context cost of a batch, by its size."""
    each = [expand({other: float(other == width) for other in CONTEXT_WIDTHS}, MAX_DRAFT) for width in CONTEXT_WIDTHS]
    by_width = list(zip(*each, strict=True))
    # Nothing was measured for the largest batch.
    return [*by_width, by_width[-1]]


_WEIGHTS = _weights()
