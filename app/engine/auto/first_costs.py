"""Estimate the costs of a pair that was never measured, from the first tokens of the answer that is being written.

No prompt waits for a measurement. Reading a prompt shows the cost of a further token in a batch, and the first steps
show the cost of a single token. Every step with a draft corrects both, and `app.engine.auto.guard` limits the loss
from a wrong estimate. A measurement while nothing is asked replaces the estimate.
"""

from __future__ import annotations

import statistics

from app.engine.auto.cost_profile import MAX_BATCH, CostProfile
from app.engine.stats import FEWEST_READ, GenerationStats
from app.engine.types import Step

LEARNING = "the first tokens show what this pair costs"
"""Reason why the first tokens have no draft, as a clause."""
_SINGLE_STEPS = 4
"""Steps without a draft before an estimate."""
_USUAL_SLOPE = 0.25
"""Cost of a further token in a batch, in single tokens, if the prompt was too short to show it; typical of a CPU."""
_SMALL_BATCHES = 1.25
"""Ratio of the cost of a further token in a small batch to its cost in a prompt. On two loaded cores, 4-bit weights
cost 0.6 single tokens in batches of four and eight, and 0.45 in a prompt."""
_LEAST_SLOPE, _MOST_SLOPE = 0.01, 1.0
_LEAST_DRAFT = 0.1
"""Lowest cost of a drafted token, in single tokens: a small model on a GPU takes longer than its size says."""


class FirstCosts:
    """Collect the times of the first steps of one answer.

    Args:
        max_batch: Largest batch that the target can roll back.
        draft_share: Cost of a token of the draft model, as a share of the target's; 0 if there is no draft model.
    """

    def __init__(self, max_batch: int, draft_share: float) -> None:
        self._max_batch = min(MAX_BATCH, max_batch)
        self._draft_share = draft_share
        self._single_ns: list[int] = []

    def observe(self, step: Step) -> bool:
        """Record the time of a step; return whether `profile` can be called."""
        if step.stats.verify_steps and not step.draft:
            self._single_ns.append(max(1, step.work_ns))
        return len(self._single_ns) >= _SINGLE_STEPS

    def profile(self, stats: GenerationStats) -> CostProfile:
        """Return the estimated costs."""
        single = float(statistics.median_low(self._single_ns))
        slope = _USUAL_SLOPE
        if stats.prompt_n >= FEWEST_READ:
            slope = _SMALL_BATCHES * (stats.prompt_ns - single) / (stats.prompt_n - 1) / single
        slope = max(_LEAST_SLOPE, min(_MOST_SLOPE, slope))
        further = {self._max_batch: single * (1.0 + slope * (self._max_batch - 1))} if self._max_batch > 1 else {}
        return CostProfile(
            {1: single} | further,
            draft_ns=single * max(_LEAST_DRAFT, self._draft_share) if self._draft_share else 0.0,
            draft_prompt_ns=self._draft_share * slope * single,
            max_batch=self._max_batch,
        )
