"""What a batch costs on this machine: measured, kept, corrected while it runs.

The cost of a batch of m rows is a staircase, not a line: kernels work in groups, so four rows can cost less than
three, and nothing here assumes otherwise. Model (all in nanoseconds, L tokens in the cache):

    T(m; L) = scale * (rows[1] + steepness * (rows[m] - rows[1]) + L * cells[m])
              + switch  if the width differs from the last one

`scale` follows clocks, heat and other load within a few rounds, `steepness` what further rows cost beside a single one,
`cells` what a cached token costs, where it shows; `rows` follows slowly, by robust means per width.
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
"""Widest verify batch: the longest draft and the token before it."""

_ROW_CLIP = 1.25
_SHIFT = 3
"""Single rows in a row, all off by more than noise in the same direction, that are no disturbance but another speed:
other programs came or went, and so did threads. It is taken over at once, else drafts would be judged by old times.
Wider batches do not tell: where text repeats itself, many of them follow each other, and what one costs behind a long
context is known less well."""
_IMPOSSIBLE = 0.6
"""A batch that takes a smaller share of what a single row should take tells of a machine faster than is believed."""
_ROW_GAIN = 0.03
_DRAFT_GAIN = 0.1
_FEWEST_READ = 16
"""Prompt tokens of which a rate tells; fewer take about as long as one."""
_READING_CLIP = 3.0
_SWITCH_GAIN = 0.05
_WINDOW = 5
_FIRST_LOOK = 2
"""Batches after which a width that was only guessed from its neighbours counts as measured."""
_CALIBRATION_WEIGHT = 2.0
"""Batches or drafts that a measured cost counts for when it is seen again; one bad moment must not decide for long."""
_NOTICEABLE = 0.005
"""A cost that moved by a smaller share leaves those between it and its neighbours as they are: to reckon them anew
takes longer than all the rest of a round."""
_WIDE = 32
_HOPE = 0.65
"""What a cached token is taken to cost a batch of more than `_WIDE` rows, as a share of what narrower batches suggest,
until such a batch was seen behind a context half as long. Many rows have kernels of their own (llama.cpp's attention on
two cores takes 0.4 to 0.6 a row from 64 rows on), and what is wrongly thought dear is never tried, so never corrected.
"""


@dataclass(slots=True)
class CostProfile:
    """The measured costs of a pair, as kept on disk.

    Attributes:
        rows: Nanoseconds of a target batch by width, at an empty cache, with the width of the batch before.
        draft_ns: Nanoseconds of one drafted token.
        switch_ns: What a change of width adds.
        cells: Nanoseconds that each token in the cache adds to a batch, at every one of `CONTEXT_WIDTHS`; without the
            widest where none was seen behind a context, and empty while nobody knows.
        draft_prompt_ns: Nanoseconds of one prompt token in the draft model.
        widest: Rows of the widest batch that may be run: a draft must be as short as the target can take back.
    """

    rows: dict[int, float]
    draft_ns: float = 0.0
    switch_ns: float = 0.0
    cells: dict[int, float] = field(default_factory=dict)
    draft_prompt_ns: float = 0.0
    widest: int = MAX_ROWS


@dataclass(slots=True)
class CostModel:
    """Predicts the cost of a batch and learns from every one that ran.

    Attributes:
        profile: What was measured; `rows` must hold width 1.
        scale: The machine's time for anything, as a factor of what was measured.
        steepness: Its time for further rows, as another factor.
    """

    profile: CostProfile
    scale: float = 1.0
    steepness: float = 1.0
    _recent: dict[int, deque[float]] = field(default_factory=dict)
    _seen: dict[int, int] = field(default_factory=dict)
    _drafts: int = 0
    _surprises: deque[float] = field(default_factory=lambda: deque(maxlen=_SHIFT))
    _table: list[float] = field(default_factory=list)
    _cells: list[float] = field(default_factory=list)
    _line: list[float] = field(default_factory=list)
    _padded: list[float] = field(default_factory=list)
    _line_for: int = -1
    _too_fast: float = 1.0
    _hopes: bool = field(init=False)
    _wide_behind: int = 0
    _attribution: Attribution = field(init=False)
    _n_threads: int = 0
    _factors: dict[int, tuple[float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        known, plain_ns = self.profile.cells, self.profile.rows[1]
        line = expand(known, CONTEXT_WIDTHS[-1]) if known else []
        self._cells = [line[width] for width in CONTEXT_WIDTHS] if known else guess(plain_ns)
        self._attribution = Attribution(plain_ns, self._cells if known else None)
        self._hopes = CONTEXT_WIDTHS[-1] not in known
        self._rebuild()

    def use_threads(self, n_threads: int) -> None:
        """Switch to the last scale and steepness for this thread count."""
        if n_threads != self._n_threads:
            self._factors[self._n_threads] = self.scale, self.steepness
            self.scale, self.steepness = self._factors.get(n_threads, (self.scale, self.steepness))
            self._n_threads, self._line_for = n_threads, -1

    def target_ns(self, rows: int, n_past: int, *, switched: bool = False) -> float:
        """Expected nanoseconds of a target batch of `rows` rows over `n_past` cached tokens."""
        if n_past == self._line_for and rows < len(self._line):
            ns = self._line[rows]
        else:
            ns = self._steep(self._table[rows]) + self._context_ns(rows, n_past)
        return self.scale * ns + (self.profile.switch_ns if switched else 0.0)

    def batches_ns(self, widest: int, n_past: int, last_rows: int) -> list[float]:
        """`target_ns` of every width up to `widest` after a batch of `last_rows`; index 0 is unused."""
        line, scale, switch_ns = self._line_to(widest, n_past), self.scale, self.profile.switch_ns
        out = [scale * ns + switch_ns for ns in line[: widest + 1]]
        if last_rows <= widest:
            out[last_rows] = scale * line[last_rows]
        return out

    def _line_to(self, widest: int, n_past: int) -> list[float]:
        """The costs of every width up to `widest` at least, `scale` left aside, kept until something is learned."""
        if n_past != self._line_for:
            self._line, self._padded, self._line_for = [], [], n_past
        line = self._line
        for rows in range(len(line), widest + 1):
            line.append(self._steep(self._table[rows]) + self._context_ns(rows, n_past))
        return line

    def padded_ns(self, rows: int, n_past: int) -> float:
        """The cost of the cheapest batch of at least `rows` rows: where wider is cheaper, it can be filled up."""
        return self.scale * self._padded_line(n_past)[rows]

    def padded_batches_ns(self, narrowest: int, widest: int, n_past: int) -> list[float]:
        """`padded_ns` of every width between two, both included."""
        scale = self.scale
        return [scale * ns for ns in self._padded_line(n_past)[narrowest : widest + 1]]

    def _padded_line(self, n_past: int) -> list[float]:
        line = self._line_to(MAX_ROWS, n_past)
        if not self._padded:
            self._padded = envelope(line)
        return self._padded

    def draft_ns(self, n_past: int) -> float:
        """Expected nanoseconds of one drafted token: a long context slows a draft model like a row of the target."""
        return self.scale * self.profile.draft_ns * (1.0 + self._context_ns(1, n_past) / self._table[1])

    def rows_at(self, n_past: int) -> dict[int, float]:
        """Expected nanoseconds of every width that was measured, over `n_past` cached tokens."""
        return {width: self.target_ns(width, n_past) for width in sorted(self.profile.rows)}

    def snapshot(self) -> CostProfile:
        """What is known now, as a profile that was measured at the present speed of the machine."""
        old, scale = self.profile, self.scale
        cells = dict(zip(CONTEXT_WIDTHS, self._cells, strict=True)) if self._attribution.knows_context else {}
        if cells and self._hopes and not self._wide_behind:
            del cells[CONTEXT_WIDTHS[-1]]
        return CostProfile(
            {width: scale * self._steep(ns) for width, ns in old.rows.items()},
            draft_ns=old.draft_ns * scale,
            switch_ns=old.switch_ns,
            cells={width: ns * scale for width, ns in cells.items()},
            draft_prompt_ns=old.draft_prompt_ns * scale,
            widest=old.widest,
        )

    def observe_target(self, rows: int, n_past: int, ns: float, *, switched: bool) -> None:
        """Learn from one target batch, everything around it included."""
        if rows > _WIDE and n_past > self._wide_behind:
            self._wide_behind = n_past
            self._line_for = -1
        self._speed_up(n_past, ns)
        expected = self.target_ns(rows, n_past, switched=switched)
        surprise = math.log(max(ns, 1.0) / max(expected, 1.0))
        if rows == 1 and (shift := self._shift(surprise)):
            self._attribution.doubt_speed(shift)
            self._attribute(rows, n_past, shift)
            return
        self._attribute(rows, n_past, surprise)
        seen = self._seen[rows] = self._seen.get(rows, 0) + 1
        if switched:
            plain = self.target_ns(rows, n_past)
            # A change of width is far below a step of the staircase; more is something else.
            bound = 0.25 * self.target_ns(1, n_past)
            extra = max(0.0, min(ns - plain, bound))
            self.profile.switch_ns += _SWITCH_GAIN * (extra - self.profile.switch_ns)
            ns -= self.profile.switch_ns
        context = self._context_ns(rows, n_past)
        recent = self._recent.setdefault(rows, deque(maxlen=_WINDOW))
        one = self._table[1]
        further = ns / self.scale - context - one
        if rows > 1 and further > 0.0:
            further /= self.steepness
        # Every batch reads all weights, so what is left for them is no less than half a row.
        recent.append(one + max(further, -0.5 * one))
        if len(recent) >= _FIRST_LOOK:
            known = self.profile.rows.get(rows, self._table[rows])
            learning = max(_ROW_GAIN, 1.0 / (_CALIBRATION_WEIGHT + seen))
            # The single row is what all others are told in: what moves it is the machine, and that is `scale`.
            gain = 1.0 if rows not in self.profile.rows else _ROW_GAIN if rows == 1 else learning
            # Of two looks one may have been disturbed: what is thought so far decides between them.
            usual = statistics.median(recent if len(recent) > 2 else [*recent, known])
            if rows == 1:
                usual = max(known / _ROW_CLIP, min(_ROW_CLIP * known, usual))
            # Where most of the time goes into the context, the rest says little about the row.
            self.profile.rows[rows] = known = known + gain * known / (known + context) * (usual - known)
            if abs(known - self._table[rows]) > _NOTICEABLE * known:
                self._rebuild()

    def correct_single_row(self, factor: float) -> None:
        """Take a single row to cost so many times what was thought, and every other width what it did."""
        rows = self.profile.rows
        before, now = rows[1], factor * rows[1]
        # Costs of further rows are told beside a single one, and steepened.
        moved = (now - before) * (1.0 - 1.0 / self.steepness)
        self.profile.rows = {width: ns + moved for width, ns in rows.items()} | {1: now}
        for width in self._recent.keys() - {1}:
            self._recent[width] = deque((ns + moved for ns in self._recent[width]), maxlen=_WINDOW)
        self._rebuild()

    def _attribute(self, rows: int, n_past: int, surprise: float) -> None:
        """Let the speed, the steepness and the cost of the context take their shares of a surprise."""
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
        """By how much the speed has changed, as the logarithm of a factor; 0 if it has not."""
        self._surprises.append(surprise)
        inside = min(self._surprises) <= SURPRISING and max(self._surprises) >= -SURPRISING
        if inside or len(self._surprises) < _SHIFT:
            return 0.0
        mildest = min(self._surprises, key=abs)
        self._surprises.clear()
        # What widths cost was seen at a speed that was not known yet.
        self._recent.clear()
        return mildest

    def _speed_up(self, n_past: int, ns: float) -> None:
        """Take over a speed at which batches take less than a single row is thought to.

        Every batch reads all weights, and two in a row agree: a clock that stood still with the machine may have left
        out a part of one.
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
        """Learn from `n_tokens` drafted one after the other."""
        if n_tokens:
            per_token = ns / n_tokens * self._table[1] / self.target_ns(1, n_past)
            if not self.profile.draft_ns:
                self.profile.draft_ns = per_token
            clipped = min(per_token, 3 * self.profile.draft_ns)
            self._drafts += 1
            gain = max(_DRAFT_GAIN, 1.0 / (_CALIBRATION_WEIGHT + self._drafts))
            self.profile.draft_ns += gain * (clipped - self.profile.draft_ns)

    def observe_reading(self, n_tokens: int, ns: float) -> None:
        """Learn from prompt tokens that the draft model read at once.

        The first takes what a drafted one takes, for all weights are read for it; where that is most of it, a short
        prompt says nothing of a long one.
        """
        if n_tokens < _FEWEST_READ or 2.0 * self.scale * self.profile.draft_ns > ns:
            return
        per_token = (ns / self.scale - self.profile.draft_ns) / n_tokens
        known = self.profile.draft_prompt_ns or per_token
        clipped = min(per_token, _READING_CLIP * known)
        # It was measured with one batch of about so many tokens, and long ones have told more.
        gain = n_tokens / (n_tokens + MAX_ROWS)
        self.profile.draft_prompt_ns = known + gain * (clipped - known)

    def _steep(self, ns: float) -> float:
        """What a batch behind an empty cache takes now, by what was measured of it, `scale` left aside."""
        further = ns - self._table[1]
        return self._table[1] + self.steepness * further if further > 0.0 else ns

    def _context_ns(self, rows: int, n_past: int) -> float:
        # A loop over three would take longer than all the rest of a prediction, and there are dozens in a round.
        narrow, middle, wide = _WEIGHTS[rows]
        cells = self._cells
        ns = n_past * (narrow * cells[0] + middle * cells[1] + wide * cells[2])
        return _HOPE * ns if rows > _WIDE and self._hopes and n_past > 2 * self._wide_behind else ns

    def _rebuild(self) -> None:
        widest = self.profile.widest
        # What cannot be run costs more than anything brings.
        self._table = expand(self.profile.rows, MAX_ROWS)[: widest + 1] + [math.inf] * (MAX_ROWS - widest)
        self._line_for = -1


def _weights() -> list[tuple[float, ...]]:
    """How much of the cost at each of `CONTEXT_WIDTHS` a batch has, by its width; index 0 is unused."""
    each = [expand({other: float(other == width) for other in CONTEXT_WIDTHS}, MAX_DRAFT) for width in CONTEXT_WIDTHS]
    by_width = list(zip(*each, strict=True))
    # The row beyond the longest draft is a batch's last, and nothing was measured there.
    return [*by_width, by_width[-1]]


_WEIGHTS = _weights()
