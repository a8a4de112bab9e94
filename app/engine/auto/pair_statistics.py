"""Statistics that automatic drafting has learned about a pair."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from app.engine.auto.acceptance import AcceptanceTable, model_table, ngram_table
from app.engine.auto.cost_profile import CostProfile
from app.engine.auto.curve import CostModel
from app.engine.auto.guard import Ledger, Trial
from app.engine.auto.rule import gain_at
from app.engine.sources import Source
from app.engine.types import MAX_DRAFT

CHECK_EVERY, FIRST_CHECK = 128, 32
"""Steps with drafts between two single-token steps that measure the speedup; a single token costs less than 1% of what
drafts gain. The first comes sooner, because short answers end earlier."""


@dataclass(slots=True)
class PairStatistics:
    """Statistics of a pair, stored from answer to answer and on disk. Times in nanoseconds.

    Attributes:
        model: Acceptance by the draft model's probability.
        ngram: Acceptance of n-gram drafts by their support.
        n_unchecked: Steps with drafts since the last single-token step.
        gain: Share of time that steps with the draft model have saved, if there were any.
        n_undrafted: Tokens answered about that text without the draft model.
        idle_answers: Consecutive answers in which the draft model could not gain.
        n_rechecks: Repeated measurements of the costs because of these answers.
        least_ns: Shortest time of a single token on this machine; 0 if unknown.
        has_short_context: Whether this answer had single-token steps over a short context.
        measured_ns: Time of a single token when the costs were measured; by default, the present time.
        n_remeasured: Times that the costs were replaced because other programs slowed down the measurement.
        is_estimated: Whether the costs come from an answer alone; see `app.engine.auto.measure_costs`.
    """

    costs: CostModel
    model: AcceptanceTable = field(default_factory=model_table)
    ngram: AcceptanceTable = field(default_factory=ngram_table)
    trial: Trial = field(default_factory=Trial)
    ledger: Ledger = field(default_factory=Ledger)
    n_unchecked: int = CHECK_EVERY - FIRST_CHECK
    gain: float | None = None
    last_prompt: Sequence[int] = ()
    n_undrafted: int = 0
    idle_answers: int = 0
    n_rechecks: int = 0
    least_ns: float = 0.0
    has_short_context: bool = False
    measured_ns: float = 0.0
    n_remeasured: int = 0
    is_estimated: bool = False

    RECHECK_GROWTH: ClassVar[int] = 4
    """The costs are measured again after 1, 4, 16, ... consecutive answers without the draft model."""
    _USUAL: ClassVar[tuple[float, ...]] = (0.6, 0.75, 0.9)
    """Acceptance in hard, usual and easy texts, for estimating the gain before the first draft. Chosen by replays."""
    SLOWED: ClassVar[float] = 2.0
    """Other programs slowed down a measurement whose single token took this many times its present time."""
    MOST_REMEASURED: ClassVar[int] = 2
    _SHORT_CONTEXT: ClassVar[float] = 1.1
    """Over a short context, a single token costs at most this many times its cost with an empty cache."""

    def __post_init__(self) -> None:
        self.measured_ns = self.measured_ns or self.costs.target_ns(1, 0)

    @classmethod
    def estimated(cls, profile: CostProfile) -> PairStatistics:
        """Return the statistics of a pair with estimated costs, so that drafts may lose less at first."""
        return cls(CostModel(profile), ledger=Ledger(Ledger.ESTIMATED), is_estimated=True)

    def table(self, source: Source) -> AcceptanceTable:
        """Return the acceptance table of a source."""
        return self.ngram if source.is_free else self.model

    @property
    def is_check_due(self) -> bool:
        """Return whether the next step should be a single token, so that the shown speedup is measured."""
        return self.n_unchecked >= CHECK_EVERY

    @property
    def was_slowed(self) -> bool:
        """Return whether other programs slowed the measurement down."""
        slowed = self.measured_ns > self.SLOWED * self.costs.target_ns(1, 0)
        return slowed and self.n_remeasured < self.MOST_REMEASURED

    @property
    def why_remeasure(self) -> str | None:
        """Return the reason to measure again as a clause, if there is one."""
        if self.was_slowed:
            return "other programs were busy the first time"
        return "drafting did not pay before" if self.idle_answers >= self.RECHECK_GROWTH**self.n_rechecks else None

    def begin_answer(self, *, idle: bool) -> None:
        """Start an answer; `idle` if the draft model cannot gain and is not used."""
        self.idle_answers = self.idle_answers + 1 if idle else 0
        if not idle and self.gain is not None and self.gain > 0.0:
            # Near break-even, the measurements of different answers disagree.
            self.n_rechecks = 0
        self.has_short_context = False
        self.trial.begin()
        self.ledger.begin()

    @property
    def likely_gain(self) -> float:
        """Return the share of time that steps with the draft model are likely to save."""
        if self.gain is not None:
            return self.gain
        return statistics.mean(gain_at(acceptance, self.costs, MAX_DRAFT) for acceptance in self._USUAL)

    def observe_batch(self, batch_size: int, n_past: int, ns: float) -> None:
        """Learn the cost of a target batch."""
        if batch_size > 1:
            self.n_unchecked += 1
        else:
            self.n_unchecked = 0
            # Over a long context, most of the time belongs to the context.
            longest_ns = self._SHORT_CONTEXT * self.costs.target_ns(1, 0)
            self.has_short_context |= self.costs.target_ns(1, n_past) < longest_ns
        self.costs.observe_target(batch_size, n_past, ns)

    def observe_gain(self, saved: float, weight: float) -> None:
        """Learn the share of time that a step with the draft model saved."""
        before = self.likely_gain
        self.gain = before + weight * (saved - before)

    def keep_least(self) -> None:
        """Remember the time of a single token if it is the shortest yet."""
        if self.has_short_context:
            now = self.costs.target_ns(1, 0)
            self.least_ns = min(self.least_ns or now, now)

    def remeasure(self, profile: CostProfile) -> None:
        """Use the costs of another measurement; keep context costs that it lacks."""
        old = self.costs.snapshot()
        if not profile.context_ns:
            ratio = profile.batch_ns[1] / old.batch_ns[1]
            profile = replace(profile, context_ns={size: ratio * ns for size, ns in old.context_ns.items()})
        self.n_remeasured += self.was_slowed and not self.is_estimated
        while self.idle_answers >= self.RECHECK_GROWTH**self.n_rechecks:
            self.n_rechecks += 1
        self.costs, self.measured_ns = CostModel(profile), profile.batch_ns[1]
        self.n_unchecked = CHECK_EVERY - FIRST_CHECK
        self.is_estimated = False
