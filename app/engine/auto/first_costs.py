"""Estimate the costs of a pair that was never measured, from its first answer."""

from __future__ import annotations

import statistics

from app.engine.auto.cost_profile import MAX_BATCH, CostProfile
from app.engine.events import Step

LEARNING = "the first tokens show what this pair costs"
"""Reason why the first tokens have no draft, as a clause."""
_PROBES = (8, 2)
"""Batch sizes to time. Four tokens cost about what interpolation between them predicts; in a mixture of experts the
second token costs most. The probes delay the first answer by two or three single tokens."""
_SINGLES = 3
"""Times of single tokens before an estimate; the last token of the prompt gives one."""
_USUAL_SLOPE = 0.25
"""Cost of a further token in a batch, in single tokens, if the prompt was too short to show it; typical of a CPU."""
_LEAST_SLOPE = 0.01
_LEAST_DRAFT = 0.1
"""Lowest cost of a drafted token, in single tokens: a small model on a GPU takes longer than its size says."""


class FirstCosts:
    """Estimate the costs of a pair that was never measured, from the answer that is being written.

    No prompt waits for a measurement. The end of the prompt is read in batches as small as those that verify drafts, so
    that their costs are measured before a draft could lose; the first steps show the cost of a single token. Every step
    with a draft corrects both, and `app.engine.auto.guard` limits the loss from a wrong estimate. A measurement while
    nothing is asked replaces the estimate.

    In replays of first answers of 96 tokens on two cores with a 4-bit target, costs estimated from the speed of the
    prompt lost up to 13%; these estimates lose at most 1% and gain as much on code.

    Args:
        max_batch: Largest batch that the target can roll back.
        draft_share: Cost of a token of the draft model, as a share of the target's; 0 if there is no draft model.

    Attributes:
        probes: Sizes of the batches in which the end of the prompt is read, to be timed.
    """

    def __init__(self, max_batch: int, draft_share: float) -> None:
        self._max_batch = min(MAX_BATCH, max_batch)
        self._draft_share = draft_share
        self._single_ns: list[int] = []
        self._batch_ns: dict[int, float] = {}
        self.probes = (*(size for size in _PROBES if size <= self._max_batch), 1)

    def observe_probe(self, size: int, ns: int) -> None:
        """Record the time of a batch at the end of the prompt."""
        if size > 1:
            self._batch_ns[size] = float(ns)
        else:
            self._single_ns.append(max(1, ns))

    def observe(self, step: Step) -> bool:
        """Record the time of a step; return whether `profile` can be called."""
        if step.stats.verify_steps and not step.draft:
            self._single_ns.append(max(1, step.work_ns))
        return len(self._single_ns) >= _SINGLES

    def profile(self) -> CostProfile:
        """Return the estimated costs."""
        single = float(statistics.median_low(self._single_ns))
        batch_ns = {1: single} | {size: max(single, ns) for size, ns in self._batch_ns.items()}
        largest, slope = max(batch_ns), _USUAL_SLOPE * single
        if largest > 1:
            slope = max(_LEAST_SLOPE * single, (batch_ns[largest] - single) / (largest - 1))
        if self._max_batch > largest:
            batch_ns[self._max_batch] = batch_ns[largest] + slope * (self._max_batch - largest)
        return CostProfile(
            batch_ns,
            draft_ns=single * max(_LEAST_DRAFT, self._draft_share) if self._draft_share else 0.0,
            draft_prompt_ns=self._draft_share * slope,
            max_batch=self._max_batch,
        )
