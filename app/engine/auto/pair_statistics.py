"""What automatic drafting knows about a pair."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from app.engine.auto.acceptance import AcceptanceTable, model_table, ngram_table
from app.engine.auto.curve import CostModel, CostProfile
from app.engine.auto.guard import Curiosity, Ledger, Trial, gain_at
from app.engine.auto.single_token_check import SingleTokenCheck
from app.engine.types import MAX_DRAFT


@dataclass(slots=True)
class PairStatistics:
    """What automatic drafting knows about a pair, kept from answer to answer and on disk.

    Attributes:
        costs: The cost of batches and of drafted tokens.
        model: Acceptance by the draft model's probability.
        lookup: Acceptance by the votes for a look-up's tokens.
        trial: Whether the draft model is on.
        ledger: What may still be lost.
        curiosity: When to try what is thought too dear.
        single_token_check: When to take a plain step only to see what it takes.
        gain: Share of plain decoding's time that rounds with the draft model have saved; None before the first.
        hope: What they are taken to save at least, because they were left out for long; 0 right after they were not.
        may_catch_up: Plain steps that a draft model which is off may take to read what it has missed.
        prompt_before: What the answer before was asked with.
        n_without: Tokens that were answered over it without the draft model, which would have had to read it.
        idle_answers: Answers in a row that the draft model was left out of because it could not pay.
        least_ns: The least that a plain step was ever seen to take on this machine, nanoseconds; 0 before the first.
        tells_least: Whether the answer had single rows that tell it; behind a long context most is the context.
        measured_ns: What a plain step took while the costs were measured, nanoseconds; what it takes now, unless told.
        n_looks: How often they were measured again meanwhile.
        n_measured_anew: How often they were measured anew because that one was held up.
    """

    costs: CostModel
    model: AcceptanceTable = field(default_factory=model_table)
    lookup: AcceptanceTable = field(default_factory=ngram_table)
    trial: Trial = field(default_factory=Trial)
    ledger: Ledger = field(default_factory=Ledger)
    curiosity: Curiosity = field(default_factory=Curiosity)
    single_token_check: SingleTokenCheck = field(default_factory=SingleTokenCheck)
    gain: float | None = None
    hope: float = 0.0
    may_catch_up: float = 0.0
    prompt_before: Sequence[int] = ()
    n_without: int = 0
    idle_answers: int = 0
    n_looks: int = 0
    least_ns: float = 0.0
    tells_least: bool = False
    measured_ns: float = 0.0
    n_measured_anew: int = 0

    LOOK_GROWTH: ClassVar[int] = 4
    """After one answer without the draft model its costs are measured again, and then always after so many times as
    many in a row."""
    LOOK_ROWS: ClassVar[int] = 40
    LEAST_LOOK_NS: ClassVar[int] = 1_000_000_000
    """What a second look may take, in plain steps, but no less than this: it asks of narrow batches and of drafted
    tokens whether they were held up, while somebody waits for an answer, and is no second measurement of everything."""
    _USUAL: ClassVar[tuple[float, ...]] = (0.6, 0.75, 0.9)
    """How often a drafted token is right in hard, in usual and in easy texts, to say what drafts may save before any
    did; where they save nothing there are none. Chosen by replays, of first answers and of many one after another."""
    _HOPING: ClassVar[float] = 0.015
    """How far an answer that left the draft model out, only because of what it is thought to save, lets that drift to
    what it could: what is never tried is never corrected."""
    MOST_SAVED: ClassVar[float] = 64.0
    """Of `may_catch_up`."""
    HELD_UP: ClassVar[float] = 2.0
    """A plain step that took so many times what it takes now was held up; ratios of such times are none."""
    MOST_ANEW: ClassVar[int] = 2
    _LITTLE_CONTEXT: ClassVar[float] = 1.1
    """A batch that should take at most so many times what it takes behind an empty cache tells of that."""

    def __post_init__(self) -> None:
        self.measured_ns = self.measured_ns or self.costs.target_ns(1, 0)

    @property
    def was_held_up(self) -> bool:
        """Whether something else had the machine while the costs were measured."""
        held_up = self.measured_ns > self.HELD_UP * self.costs.target_ns(1, 0)
        return held_up and self.n_measured_anew < self.MOST_ANEW

    @property
    def wants_second_look(self) -> bool:
        """Whether what was measured should be checked.

        It was measured while the machine was held up, or it says that drafting cannot pay: that rests on one
        measurement, and whatever else the machine did meanwhile mostly made drafting look dearer; what is never tried
        is never corrected.
        """
        return self.was_held_up or self.idle_answers >= self.LOOK_GROWTH**self.n_looks

    @property
    def look_ns(self) -> int:
        """Nanoseconds that a second look may take."""
        return max(self.LEAST_LOOK_NS, round(self.LOOK_ROWS * self.costs.target_ns(1, 0)))

    def begin_answer(self, *, idle: bool) -> None:
        """Count an answer that the draft model is left out of because it could not pay, or the end of such."""
        self.idle_answers = self.idle_answers + 1 if idle else 0
        if not idle and self.gain is not None and self.gain > 0.0:
            # On the border of what can pay one look says yes and the next answer no, over and over.
            self.n_looks = 0
        self.tells_least = False
        self.trial.begin()
        self.ledger.begin()
        self.curiosity.begin()

    @property
    def likely_gain(self) -> float:
        """Share of plain decoding's time that rounds with the draft model are likely to save."""
        known = self.gain
        if known is None:
            known = statistics.mean(gain_at(right, self.costs, MAX_DRAFT) for right in self._USUAL)
        return max(known, self.hope)

    def observe_batch(self, rows: int, n_past: int, ns: float, *, switched: bool) -> None:
        """Learn from a batch of the target what batches cost, everything around it included."""
        if rows == 1 and self._was_check(n_past, ns, switched=switched):
            return
        self.costs.observe_target(rows, n_past, ns, switched=switched)
        if rows > 1:
            self.single_token_check.pass_by(self.costs.scale)

    def _was_check(self, n_past: int, ns: float, *, switched: bool) -> bool:
        """Learn from a single row what one costs by itself, and whether it was taken to tell that and nothing else."""
        costs = self.costs
        expected_ns = costs.target_ns(1, n_past, switched=switched)
        was_checking = self.single_token_check.is_checking
        factor = self.single_token_check.observe(n_past, ns, expected_ns)
        # Where most of the time goes into the context, the rest says little about the row.
        is_short = costs.target_ns(1, n_past) < self._LITTLE_CONTEXT * costs.target_ns(1, 0)
        self.tells_least |= is_short
        if is_short and factor != 1.0:
            costs.correct_single_row(factor)
        return was_checking and is_short

    def observe_gain(self, saved: float, weight: float) -> None:
        """Learn from a round with the draft model which share of plain decoding's time it saved."""
        before = self.likely_gain
        self.gain, self.hope = before + weight * (saved - before), 0.0

    def leave_out(self) -> None:
        """Note that an answer leaves the draft model out because of what it is thought to save."""
        self.hope = self.likely_gain
        self.hope += self._HOPING * max(0.0, gain_at(max(self._USUAL), self.costs, MAX_DRAFT) - self.hope)

    def measured_anew(self, costs: CostModel) -> PairStatistics:
        """Other costs with what was learned of the models' agreement, and of the context if nothing newer is known."""
        return PairStatistics(self._with_context(costs), self.model, self.lookup)

    def _with_context(self, costs: CostModel) -> CostModel:
        profile, old = costs.profile, self.costs.snapshot()
        if profile.cells:
            return costs
        faster = profile.rows[1] / old.rows[1]
        return CostModel(replace(profile, cells={width: faster * ns for width, ns in old.cells.items()}))

    def keep_least(self) -> None:
        """Note what a plain step takes now, if that was seen and is less than ever before."""
        if self.tells_least:
            now = self.costs.target_ns(1, 0)
            self.least_ns = min(self.least_ns or now, now)

    def remeasure(self, profile: CostProfile) -> None:
        """Take the costs of a second measurement: all of them after a held up one, else where they are lower."""
        if self.was_held_up:
            self.costs = self._with_context(CostModel(profile))
            self.measured_ns = profile.rows[1]
            self.single_token_check = SingleTokenCheck()
            self.n_measured_anew += 1
            return
        while self.idle_answers >= self.LOOK_GROWTH**self.n_looks:
            self.n_looks += 1
        # Other work mostly adds. Single rows were seen in every plain step since; the rest counts in terms of them.
        old = self.costs.snapshot()
        plain = old.rows[1]
        now = plain / profile.rows[1]
        rows = old.rows | {width: min(now * ns, old.rows.get(width, math.inf)) for width, ns in profile.rows.items()}
        self.costs = CostModel(
            replace(
                old,
                rows=rows | {1: plain},
                draft_ns=min(old.draft_ns, now * profile.draft_ns),
                draft_prompt_ns=min(old.draft_prompt_ns, now * profile.draft_prompt_ns),
                cells={width: now * ns for width, ns in profile.cells.items()} or old.cells,
            )
        )
