"""Statistics that automatic drafting has learned about a pair."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from app.engine.auto.acceptance import AcceptanceTable, model_table, ngram_table
from app.engine.auto.curve import CostModel, CostProfile
from app.engine.auto.guard import Ledger, Trial, gain_at
from app.engine.types import MAX_DRAFT


@dataclass(slots=True)
class SingleTokenCheck:
    """Take a single-token step now and then, so that the speedup shown is measured.

    Attributes:
        waited: Steps with drafts since then.
    """

    EVERY: ClassVar[int] = 128
    """Steps; a check costs what one draft would have gained, less than a hundredth of them."""
    SOON: ClassVar[int] = 32
    """Steps until the first check, because short answers end before `EVERY`."""

    waited: int = EVERY - SOON

    @property
    def is_due(self) -> bool:
        """Return whether the next step should be a single token."""
        return self.waited >= self.EVERY

    def observe(self, ns: float, expected_ns: float) -> float:
        """Learn from a single-token step.

        Returns:
            The factor by which a single token costs more than expected; 1 unless a check was due.
        """
        was_due, self.waited = self.is_due, 0
        # Half of it: a single measurement may have been disturbed.
        return math.exp(0.5 * math.log(max(ns, 1.0) / max(expected_ns, 1.0))) if was_due else 1.0


@dataclass(slots=True)
class PairStatistics:
    """Statistics of a pair, kept from answer to answer and on disk. Times in nanoseconds.

    Attributes:
        costs: Cost of batches and drafted tokens.
        model: Acceptance by the draft model's probability.
        lookup: Acceptance of n-gram drafts by their support.
        trial: Whether the draft model is on.
        ledger: What may still be lost.
        single_token_check: When to take a single-token step.
        gain: Share of time that steps with the draft model have saved; None before the first.
        last_prompt: Prompt of the answer before.
        n_without: Tokens answered over that text without the draft model.
        idle_answers: Consecutive answers without the draft model because it could not pay.
        n_rechecks: Times that the costs were measured again.
        least_ns: Shortest time of a single token on this machine; 0 before the first.
        tells_least: Whether this answer had single tokens over a short context.
        measured_ns: Time of a single token during calibration; what it takes now, unless given.
        n_recalibrated: Times that the costs were replaced because the calibration was slowed down.
    """

    costs: CostModel
    model: AcceptanceTable = field(default_factory=model_table)
    lookup: AcceptanceTable = field(default_factory=ngram_table)
    trial: Trial = field(default_factory=Trial)
    ledger: Ledger = field(default_factory=Ledger)
    single_token_check: SingleTokenCheck = field(default_factory=SingleTokenCheck)
    gain: float | None = None
    last_prompt: Sequence[int] = ()
    n_without: int = 0
    idle_answers: int = 0
    n_rechecks: int = 0
    least_ns: float = 0.0
    tells_least: bool = False
    measured_ns: float = 0.0
    n_recalibrated: int = 0

    RECHECK_GROWTH: ClassVar[int] = 4
    """The costs are measured again after one answer without the draft model, then after 4, 16, ... in a row."""
    RECALIBRATION_TOKENS: ClassVar[int] = 40
    LEAST_RECALIBRATION_NS: ClassVar[int] = 1_000_000_000
    """A second calibration may take `RECALIBRATION_TOKENS` single tokens, but at least this long."""
    _USUAL: ClassVar[tuple[float, ...]] = (0.6, 0.75, 0.9)
    """Acceptance in hard, usual and easy texts: what drafts may save before any was tried. Chosen by replays."""
    SLOWED: ClassVar[float] = 2.0
    """A calibration whose single token took this many times its present time was slowed down."""
    MOST_RECALIBRATED: ClassVar[int] = 2
    _SHORT_CONTEXT: ClassVar[float] = 1.1
    """Largest ratio to the cost over an empty cache at which a step tells about that cost."""

    def __post_init__(self) -> None:
        self.measured_ns = self.measured_ns or self.costs.target_ns(1, 0)

    @property
    def was_slowed(self) -> bool:
        """Return whether other programs slowed the calibration down."""
        slowed = self.measured_ns > self.SLOWED * self.costs.target_ns(1, 0)
        return slowed and self.n_recalibrated < self.MOST_RECALIBRATED

    @property
    def wants_recalibration(self) -> bool:
        """Return whether to calibrate again: the last one was slowed down, or says that drafting cannot pay."""
        return self.was_slowed or self.idle_answers >= self.RECHECK_GROWTH**self.n_rechecks

    @property
    def recalibration_ns(self) -> int:
        """Time that a second calibration may take."""
        return max(self.LEAST_RECALIBRATION_NS, round(self.RECALIBRATION_TOKENS * self.costs.target_ns(1, 0)))

    def begin_answer(self, *, idle: bool) -> None:
        """Start an answer; `idle` if the draft model is left out because it cannot pay."""
        self.idle_answers = self.idle_answers + 1 if idle else 0
        if not idle and self.gain is not None and self.gain > 0.0:
            # At the border of what can pay, measurements disagree from answer to answer.
            self.n_rechecks = 0
        self.tells_least = False
        self.trial.begin()
        self.ledger.begin()

    @property
    def likely_gain(self) -> float:
        """Share of time that steps with the draft model are likely to save."""
        if self.gain is not None:
            return self.gain
        return statistics.mean(gain_at(acceptance, self.costs, MAX_DRAFT) for acceptance in self._USUAL)

    def observe_batch(self, rows: int, n_past: int, ns: float) -> None:
        """Learn the cost of a target batch."""
        if rows > 1:
            self.single_token_check.waited += 1
        elif self._was_check(n_past, ns):
            return
        self.costs.observe_target(rows, n_past, ns)

    def _was_check(self, n_past: int, ns: float) -> bool:
        costs = self.costs
        factor = self.single_token_check.observe(ns, costs.target_ns(1, n_past))
        # Over a long context, most of the time says nothing about the token.
        is_short = costs.target_ns(1, n_past) < self._SHORT_CONTEXT * costs.target_ns(1, 0)
        self.tells_least |= is_short
        if is_short and factor != 1.0:
            costs.correct_single_row(factor)
            return True
        return False

    def observe_gain(self, saved: float, weight: float) -> None:
        """Learn the share of time that a step with the draft model saved."""
        before = self.likely_gain
        self.gain = before + weight * (saved - before)

    def with_costs(self, costs: CostModel) -> PairStatistics:
        """Return the same acceptance with other costs, and with the context costs if those are unknown."""
        return PairStatistics(self._with_context(costs), self.model, self.lookup)

    def _with_context(self, costs: CostModel) -> CostModel:
        profile, old = costs.profile, self.costs.snapshot()
        if profile.cells:
            return costs
        faster = profile.rows[1] / old.rows[1]
        return CostModel(replace(profile, cells={width: faster * ns for width, ns in old.cells.items()}))

    def keep_least(self) -> None:
        """Remember the time of a single token if it is the shortest yet."""
        if self.tells_least:
            now = self.costs.target_ns(1, 0)
            self.least_ns = min(self.least_ns or now, now)

    def remeasure(self, profile: CostProfile) -> None:
        """Take the costs of a second calibration: all if the first was slowed down, else the lower ones."""
        if self.was_slowed:
            self.costs = self._with_context(CostModel(profile))
            self.measured_ns = profile.rows[1]
            self.single_token_check = SingleTokenCheck()
            self.n_recalibrated += 1
            return
        while self.idle_answers >= self.RECHECK_GROWTH**self.n_rechecks:
            self.n_rechecks += 1
        # Other programs mostly add time. Single tokens were seen in every step since; the rest is relative to them.
        old = self.costs.snapshot()
        single = old.rows[1]
        now = single / profile.rows[1]
        rows = old.rows | {width: min(now * ns, old.rows.get(width, math.inf)) for width, ns in profile.rows.items()}
        self.costs = CostModel(
            replace(
                old,
                rows=rows | {1: single},
                draft_ns=min(old.draft_ns, now * profile.draft_ns),
                draft_prompt_ns=min(old.draft_prompt_ns, now * profile.draft_prompt_ns),
                cells={width: now * ns for width, ns in profile.cells.items()} or old.cells,
            )
        )
