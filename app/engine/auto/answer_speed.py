"""The speed of an answer: the price of time in the rule, the speedup that users see, and stalls of the machine."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

from app.engine.drafting_report import Speedup
from app.engine.interfaces import StepResult

_RATE_FORGETTING = 0.985
"""Forgetting per token, not per step: copied text has few steps, so its speed would count long after it ended."""
_RATE_PRIOR = 10.0
_MIN_STEPS = 8
"""Steps before a speedup is reported."""
_FEWEST_LONG_STEPS, _MANY_TOKENS = 3, 32
"""Steps and tokens that also suffice for a speedup."""
_TIE_SHARE = 0.03
"""Speedups within this share of 1 are called break-even."""
_N_RECENT_SINGLES, _MAX_STEPS_SINCE_SINGLE = 16, 160
"""Single-token steps that measure the time without drafts, and the maximum age of the last such step. There is one
after 128 drafts."""
_STEP_NOISE = 0.06
"""Relative standard deviation of a step's time before any step; see `app.engine.auto.attribution`."""
_MIN_STANDARD_ERRORS = 2.0
"""Standard errors by which a speedup must differ from 1 for a verdict."""
_STALL_FACTOR = 2.0
"""A step that takes more than this many times the expected time was stalled."""
_STEADY_LOAD_RATIO = 1.25
"""Largest ratio of the busiest to the calmest average stretch that counts as steady load. Over 96 tokens the ratio
was 1.0 on a quiet machine, 1.1 with one core busy, and at least 1.5 under an intermittent load."""


@dataclass(slots=True)
class AnswerSpeed:
    """Recent and total tokens and time of one answer. Times are nanoseconds by the work clock.

    The cost of a step is relative to recent single-token steps, so that a machine that slows down does not make drafts
    look worse. The speedup uses the single-token steps of this answer: their time over the predicted time corrects
    every other prediction.

    A step that takes much longer than expected says nothing about drafting: another program started, or weights are
    read from disk again. Single tokens follow until one takes the usual time (`is_stalled`).

    Attributes:
        is_stalled: Whether the machine stalled in the last step, so that the next step is a single token.
        slowdown: Time of a single token over its prediction, as other steps suggest.
    """

    is_stalled: bool = False
    n_steps: int = 0
    slowdown: float = 1.0
    _n_tokens: int = 0
    _tokens: float = 0.0
    _steps: float = 0.0
    _spent_ns: float = 0.0
    _single_ns: float = 0.0
    _predicted_ns: float = 0.0
    """Predicted time of the tokens from steps with drafts."""
    _stretch: float = 0.0
    """Moving average of wall time over work-clock time, over about the last `_MIN_STEPS` steps."""
    _calmest: float = math.inf
    _busiest: float = 0.0
    _singles: deque[tuple[int, float, float]] = field(default_factory=lambda: deque(maxlen=_N_RECENT_SINGLES))
    """Step number, nanoseconds and predicted nanoseconds of the last single-token steps."""

    def rate(self, single_ns: float) -> float:
        """Return recent tokens per nanosecond, at least the rate without drafts."""
        return max(1.0, (self._tokens + _RATE_PRIOR) / (self._steps + _RATE_PRIOR)) / single_ns

    def add_undrafted(self, ns: int) -> None:
        """Add the time of text generated without drafts."""
        self._spent_ns += ns
        self._single_ns += ns

    def add_preparation(self, ns: int) -> None:
        """Add the time in which the draft sources prepared for a text."""
        self._spent_ns += ns

    def observe(
        self,
        result: StepResult,
        reading_ns: float,
        expected_ns: float,
        price_ns: float,
        predicted_ns: float,
        *,
        drafted: bool,
    ) -> float:
        """Add a step; return the nanoseconds that count for or against its draft, or as the price of a single token.

        Args:
            reading_ns: Time that the draft model spent on unread text.
            expected_ns: Expected time of the rest; what exceeds it by far was lost to other programs.
            price_ns: Predicted time of a single token, after learning from this step.
            predicted_ns: The same before learning from it.
        """
        measured = result.work_ns - reading_ns
        counted = min(measured, _STALL_FACTOR * expected_ns)
        stalled = measured - counted
        self.is_stalled = stalled > 0 and (drafted or self.is_stalled)
        n_tokens = len(result.tokens)
        kept = _RATE_FORGETTING**n_tokens
        self._tokens = kept * self._tokens + n_tokens
        self._steps = kept * self._steps + counted / price_ns
        self._spent_ns += counted + stalled + reading_ns
        self._single_ns += stalled
        if drafted:
            self._predicted_ns += n_tokens * predicted_ns
        else:
            self._single_ns += counted
        if not result.draft:
            # A stall in one step says nothing about the other steps.
            single_ns = min(result.work_ns - result.draft_ns, _STALL_FACTOR * predicted_ns)
            self._singles.append((self.n_steps, single_ns, predicted_ns))
        self.n_steps += 1
        self._n_tokens += n_tokens
        self._stretch += (result.stretch - self._stretch) / min(self.n_steps, _MIN_STEPS)
        if self.n_steps >= _MIN_STEPS:
            self._calmest = min(self._calmest, self._stretch)
            self._busiest = max(self._busiest, self._stretch)
        return counted

    @property
    def speedup(self) -> Speedup | None:
        """Return the speedup so far; None after too few drafts."""
        enough = self.n_steps >= _MIN_STEPS or (self.n_steps >= _FEWEST_LONG_STEPS and self._n_tokens >= _MANY_TOKENS)
        if not enough or not self._predicted_ns:
            return None
        singles = self._singles
        known, taken = sum(ns for _, _, ns in singles), sum(ns for _, ns, _ in singles)
        usual = known / len(singles) if singles else 1.0
        # `slowdown` counts as another single-token step.
        predicted_ns = self._predicted_ns * (taken + self.slowdown * usual) / (known + usual)
        ratio = (self._single_ns + predicted_ns) / self._spent_ns
        # The time without drafts counts as measured if it is recent and the load is steady.
        is_recent = bool(singles) and self.n_steps - singles[-1][0] <= _MAX_STEPS_SINCE_SINGLE
        if not is_recent or not 0.0 < self._busiest <= _STEADY_LOAD_RATIO * self._calmest:
            return Speedup(ratio)
        return Speedup(ratio, True, self._verdict(ratio, predicted_ns / self._spent_ns))

    def _verdict(self, ratio: float, predicted: float) -> str:
        if abs(ratio - 1.0) <= _TIE_SHARE:
            return "break-even"
        shares = [ns / known for _, ns, known in self._singles]
        n, mean = len(shares), sum(shares) / len(shares)
        variance = (_STEP_NOISE**2 + sum((share / mean - 1.0) ** 2 for share in shares)) / n
        if abs(ratio - 1.0) <= _MIN_STANDARD_ERRORS * math.sqrt(variance / n) * predicted:
            return ""
        return "winning" if ratio > 1.0 else "losing"
