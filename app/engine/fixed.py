"""Strategies that do not tune: no drafting, and fixed drafting by llama.cpp's n_max, n_min and p_min."""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Iterator, Sequence

from app.engine.auto.answer_speed import AnswerSpeed
from app.engine.auto.curve import CostModel
from app.engine.draft_source import DraftSource
from app.engine.drafting_report import Speedup
from app.engine.interfaces import AnswerStart, Cancelled, Clock, StepResult, Strategy, Verdict
from app.engine.types import NO_DRAFT, Draft, DraftingStatus, DraftParams

_RECENT_STEPS = 15
"""Recent steps that determine the current speed of the machine."""
NEVER_MEASURED = "speedup unknown: this pair was never measured"


class NoDrafting(Strategy):
    """Propose nothing; `why` is the reason, as a clause, if drafts were enabled."""

    def __init__(self, why: str | None = None) -> None:
        self._why = why

    @property
    def status(self) -> DraftingStatus | None:
        return DraftingStatus("off", self._why) if self._why else None


class FixedDrafting(Strategy):
    """Drafts up to n_max tokens, none below p_min, and submits at least n_min tokens.

    As in llama.cpp, a drafted end token is submitted like any other. The speedup needs measured step costs.
    """

    def __init__(
        self,
        source: DraftSource,
        params: DraftParams,
        costs: CostModel | None = None,
        clock: Clock = time.perf_counter_ns,
    ) -> None:
        self._source = source
        self._drafting = self._has_failed = False
        self.params = params
        self._costs = costs
        self._clock = clock
        self._speed = AnswerSpeed()
        self._slowdowns: deque[float] = deque(maxlen=_RECENT_STEPS)

    def begin(self, start: AnswerStart, cancelled: Cancelled) -> Iterator[int]:
        self._speed.add_undrafted(start.undrafted_ns)
        if self.params.n_max > 0:
            started = self._clock()
            try:
                yield from self._source.begin(start.sequence, cancelled)
            finally:
                self._speed.add_preparation(self._clock() - started)

    def propose(self, sequence: Sequence[int], limit: int) -> Draft:
        limit = min(limit, self.params.n_max)
        # At the end of the context, a draft may have to be shorter than n_min.
        self._drafting = limit >= max(1, self.params.n_min) and not self._has_failed
        draft = self._source.draft(sequence, limit, self._judge) if self._drafting else NO_DRAFT
        return draft if len(draft) >= max(1, self.params.n_min) else NO_DRAFT

    def lose_model(self) -> None:
        self._drafting, self._has_failed = False, True

    def _judge(self, depth: int, probability: float) -> Verdict:
        return Verdict.TAKE if probability >= self.params.p_min else Verdict.DROP

    def observe(self, result: StepResult) -> None:
        if not self._has_failed:
            self._source.accept(result.tokens, result.n_accepted)
        if self._costs is not None:
            self._account(result, self._costs)

    def _account(self, result: StepResult, costs: CostModel) -> None:
        batch_size, n_past = len(result.draft) + 1, result.n_past
        measured_ns, batch_ns = costs.target_ns(batch_size, n_past), result.work_ns - result.draft_ns
        self._slowdowns.append(batch_ns / measured_ns)
        slowdown = self._speed.slowdown = statistics.median(self._slowdowns)
        # A failed draft model's time does not belong to a step without drafts.
        drafting_ns, wasted_ns = (result.draft_ns, 0) if self._drafting else (0, result.draft_ns)
        expected_ns = slowdown * measured_ns + drafting_ns
        predicted_ns = costs.target_ns(1, n_past)
        self._speed.observe(
            result, wasted_ns, expected_ns, slowdown * predicted_ns, predicted_ns, drafted=self._drafting
        )

    @property
    def speedup(self) -> Speedup | None:
        return self._speed.speedup

    @property
    def status(self) -> DraftingStatus | None:
        """Return the source, or why the speedup is unknown; None if n_max is 0."""
        if self.params.n_max == 0:
            return None
        kind = self._source.kind
        why = kind.failed if self._has_failed else NEVER_MEASURED if self._costs is None else None
        return DraftingStatus("off" if self._has_failed else kind, why)
