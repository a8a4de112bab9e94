"""Predict the cost of a batch on this machine, and correct the prediction with every batch that ran.

The cost of a batch of m tokens is a staircase, not a line: kernels work in groups, so four tokens can cost less than
three. Model, in nanoseconds, with L tokens in the cache:

    T(m; L) = scale * (T(1) + steepness * (T(m) - T(1)) + L * c(m))

`scale` follows clocks, heat and other load within a few steps. `steepness` is the cost of further tokens relative to
the first. c(m) is the cost of a cached token. The measured times T(m) follow slowly, by medians per batch size.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from dataclasses import dataclass, field

from app.engine.auto.attribution import LARGE_RESIDUAL, STEEPNESS_RETURN, Attribution, guess
from app.engine.auto.cost_profile import CONTEXT_BATCH_SIZES, MAX_BATCH, CostProfile, expand
from app.engine.stats import FEWEST_READ
from app.engine.types import MAX_DRAFT

_SINGLE_CLIP = 1.25
"""Largest factor between the known time of a single token and a median that may change it."""
_SHIFT_STEPS = 3
"""Number of consecutive single-token steps, all off by more than noise in the same direction, that prove a new speed.
It is adopted immediately; otherwise drafts would be judged by old times."""
_TOO_FAST = 0.6
"""A batch that takes less than this share of a single token's time shows that the machine is faster than assumed."""
_BATCH_GAIN = 0.03
_DRAFT_GAIN = 0.1
_READING_CLIP = 3.0
_SMOOTHING_WINDOW = 5
_FEWEST_BATCHES = 2
"""Batches after which an interpolated batch size counts as measured."""
_NOTICEABLE_CHANGE_SHARE = 0.005
"""Smaller changes do not rebuild the table, which takes longer than the rest of a step."""


@dataclass(slots=True)
class CostModel:
    """Predicts the cost of a batch from measured costs, and learns from each batch; see the module for the terms."""

    profile: CostProfile
    scale: float = 1.0
    steepness: float = 1.0
    _recent: dict[int, deque[float]] = field(default_factory=dict)
    _seen: dict[int, int] = field(default_factory=dict)
    _residuals: deque[float] = field(default_factory=lambda: deque(maxlen=_SHIFT_STEPS))
    _table: list[float] = field(default_factory=list)
    """Unscaled cost of every batch size with an empty cache."""
    _context: list[float] = field(default_factory=list)
    _line: list[float] = field(default_factory=list)
    """Unscaled costs over `_line_n_past` cached tokens, or -1 if they must be recomputed."""
    _line_n_past: int = -1
    _last_share: float = 1.0
    _attribution: Attribution = field(init=False)
    _n_threads: int = 0
    _factors: dict[int, tuple[float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        known, single_ns = self.profile.context_ns, self.profile.batch_ns[1]
        line = expand(known, CONTEXT_BATCH_SIZES[-1]) if known else []
        self._context = [line[size] for size in CONTEXT_BATCH_SIZES] if known else guess(single_ns)
        self._attribution = Attribution(single_ns, self._context if known else None)
        self._rebuild()

    def use_threads(self, n_threads: int) -> None:
        """Switch to the last scale and steepness with this thread count."""
        if n_threads != self._n_threads:
            self._factors[self._n_threads] = self.scale, self.steepness
            self.scale, self.steepness = self._factors.get(n_threads, (self.scale, self.steepness))
            self._n_threads, self._line_n_past = n_threads, -1

    def target_ns(self, batch_size: int, n_past: int) -> float:
        """Return the expected time of a target batch over `n_past` cached tokens."""
        if n_past == self._line_n_past and batch_size < len(self._line):
            return self.scale * self._line[batch_size]
        return self.scale * (self._steepened(self._table[batch_size]) + self._context_ns(batch_size, n_past))

    def batches_ns(self, largest: int, n_past: int, smallest: int = 0) -> list[float]:
        """Return `target_ns` of each batch size from `smallest` to `largest`; the value for size 0 is meaningless."""
        # The unscaled costs are cached until the model learns something.
        if n_past != self._line_n_past:
            self._line, self._line_n_past = [], n_past
        line = self._line
        for size in range(len(line), largest + 1):
            line.append(self._steepened(self._table[size]) + self._context_ns(size, n_past))
        scale = self.scale
        return [scale * ns for ns in line[smallest : largest + 1]]

    def draft_ns(self, n_past: int) -> float:
        """Return the expected time of a drafted token; the context slows it by the same factor as a single token."""
        return self.scale * self.profile.draft_ns * (1.0 + self._context_ns(1, n_past) / self._table[1])

    def draft_start_ns(self, n_past: int) -> float:
        """Return the expected fixed time per draft in nanoseconds, without its tokens."""
        start_ns = self.profile.draft_start_ns
        return self.scale * start_ns * (1.0 + self._context_ns(1, n_past) / self._table[1]) if start_ns else 0.0

    def snapshot(self) -> CostProfile:
        """Return the learned costs as a profile measured at the present speed."""
        old, scale = self.profile, self.scale
        context = dict(zip(CONTEXT_BATCH_SIZES, self._context, strict=True)) if self._attribution.knows_context else {}
        return CostProfile(
            {size: scale * self._steepened(ns) for size, ns in old.batch_ns.items()},
            draft_ns=old.draft_ns * scale,
            context_ns={size: ns * scale for size, ns in context.items()},
            draft_prompt_ns=old.draft_prompt_ns * scale,
            draft_start_ns=old.draft_start_ns * scale,
            max_batch=old.max_batch,
        )

    def observe_target(self, batch_size: int, n_past: int, ns: float) -> None:
        """Learn from the time of one target batch."""
        self._accept_faster_speed(n_past, ns)
        residual = math.log(max(ns, 1.0) / max(self.target_ns(batch_size, n_past), 1.0))
        if batch_size == 1 and (shift := self._speed_shift(residual)):
            self._attribution.add_speed_variance(shift)
            self._attribute(batch_size, n_past, shift)
            return
        self._attribute(batch_size, n_past, residual)
        self._seen[batch_size] = self._seen.get(batch_size, 0) + 1
        context = self._context_ns(batch_size, n_past)
        recent = self._recent.setdefault(batch_size, deque(maxlen=_SMOOTHING_WINDOW))
        single = self._table[1]
        further = ns / self.scale - context - single
        if batch_size > 1 and further > 0.0:
            further /= self.steepness
        # Each batch reads all weights, so it takes at least half of a single token.
        recent.append(single + max(further, -0.5 * single))
        if len(recent) >= _FEWEST_BATCHES:
            batch_ns = self.profile.batch_ns
            known = batch_ns.get(batch_size, self._table[batch_size])
            gain = _BATCH_GAIN if batch_size in batch_ns else 1.0
            # With two values, one may be disturbed, so the present estimate decides.
            usual = statistics.median(recent if len(recent) > 2 else [*recent, known])
            if batch_size == 1:
                usual = max(known / _SINGLE_CLIP, min(_SINGLE_CLIP * known, usual))
            # If the context takes most of the time, the rest says little about the batch size.
            batch_ns[batch_size] = known = known + gain * known / (known + context) * (usual - known)
            if abs(known - self._table[batch_size]) > _NOTICEABLE_CHANGE_SHARE * known:
                self._rebuild()

    def _attribute(self, batch_size: int, n_past: int, residual: float) -> None:
        """Change speed, steepness and context cost by their shares of a residual."""
        single, batch = self._table[1], self._steepened(self._table[batch_size])
        expected = batch + self._context_ns(batch_size, n_past)
        context = [n_past * weight / expected for weight in _CONTEXT_WEIGHTS[batch_size]]
        n_seen = self._seen.get(batch_size, 0) if batch_size > 1 else None
        further = max(0.0, batch - single) / expected
        speed, steep, *context_gains = self._attribution.update(residual, further, context, n_seen)
        self.scale *= math.exp(speed * residual)
        self.steepness = self.steepness**STEEPNESS_RETURN * math.exp(steep * residual)
        self._line_n_past = -1
        for i, gain in enumerate(context_gains):
            self._context[i] = max(0.0, self._context[i] + gain * residual)

    def _speed_shift(self, residual: float) -> float:
        """Return the change of the machine's speed as the logarithm of a factor; 0 if it did not change."""
        residuals = self._residuals
        residuals.append(residual)
        is_noise = min(residuals) <= LARGE_RESIDUAL and max(residuals) >= -LARGE_RESIDUAL
        if is_noise or len(residuals) < _SHIFT_STEPS:
            return 0.0
        smallest = min(residuals, key=abs)
        residuals.clear()
        # The speed at these measurements is unknown.
        self._recent.clear()
        return smallest

    def _accept_faster_speed(self, n_past: int, ns: float) -> None:
        """Adopt a higher speed if batches take much less time than a single token should.

        Two consecutive batches must agree, because one time may be too short: a clock can stop while the machine
        sleeps.
        """
        share = ns / self.target_ns(1, n_past)
        larger, self._last_share = max(share, self._last_share), share
        if larger < _TOO_FAST:
            self.scale *= larger
            self._last_share = 1.0
            self._recent.clear()
            self._residuals.clear()
            self._line_n_past = -1

    def observe_draft(self, n_tokens: int, n_past: int, ns: float) -> None:
        """Learn from a draft that took `ns`: correct its fixed time or its time per token, whichever is larger."""
        speed = self._table[1] / self.target_ns(1, n_past)
        start_ns = self.profile.draft_start_ns
        if start_ns > self.profile.draft_ns:
            rest = max(0.0, ns * speed - n_tokens * self.profile.draft_ns)
            self.profile.draft_start_ns += _DRAFT_GAIN * (min(rest, 3 * start_ns) - start_ns)
        elif n_tokens:
            per_token = max(0.0, ns * speed - start_ns) / n_tokens
            if not self.profile.draft_ns:
                self.profile.draft_ns = per_token
            clipped = min(per_token, 3 * self.profile.draft_ns)
            self.profile.draft_ns += _DRAFT_GAIN * (clipped - self.profile.draft_ns)

    def observe_reading(self, n_tokens: int, ns: float) -> None:
        """Learn from the time of `n_tokens` prompt tokens that the draft model read at once.

        The first token takes as long as a drafted token. If that is most of the time, the prompt is too short to learn
        from.
        """
        if n_tokens < FEWEST_READ or 2.0 * self.scale * self.profile.draft_ns > ns:
            return
        per_token = (ns / self.scale - self.profile.draft_ns) / n_tokens
        known = self.profile.draft_prompt_ns or per_token
        clipped = min(per_token, _READING_CLIP * known)
        gain = n_tokens / (n_tokens + MAX_BATCH)
        self.profile.draft_prompt_ns = known + gain * (clipped - known)

    def _steepened(self, ns: float) -> float:
        further = ns - self._table[1]
        return self._table[1] + self.steepness * further if further > 0.0 else ns

    def _context_ns(self, batch_size: int, n_past: int) -> float:
        # Unrolled: a loop over three would take longer than the rest of a prediction.
        small, middle, large = _CONTEXT_WEIGHTS[batch_size]
        context = self._context
        return n_past * (small * context[0] + middle * context[1] + large * context[2])

    def _rebuild(self) -> None:
        largest = self.profile.max_batch
        # A batch that cannot run is infinitely expensive.
        self._table = expand(self.profile.batch_ns, MAX_BATCH)[: largest + 1] + [math.inf] * (MAX_BATCH - largest)
        self._line_n_past = -1


def _weights() -> list[tuple[float, ...]]:
    """Return the weight of each of `CONTEXT_BATCH_SIZES` in the context cost of a batch, by its size."""
    sizes = CONTEXT_BATCH_SIZES
    by_sample = [expand({other: float(other == size) for other in sizes}, MAX_DRAFT) for size in sizes]
    by_size = list(zip(*by_sample, strict=True))
    # Context costs are sampled up to `MAX_DRAFT`; the largest batch takes the last weights.
    return [*by_size, by_size[-1]]


_CONTEXT_WEIGHTS = _weights()
