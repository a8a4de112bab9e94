"""What automatic drafting knows about a pair."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar

from app.engine.tuning.acceptance import AcceptanceTable, lookup_table, model_table
from app.engine.tuning.curve import CostModel, CostProfile
from app.engine.tuning.guard import Curiosity, Ledger, Trial


@dataclass(slots=True)
class Memory:
    """What automatic drafting knows about a pair, kept from answer to answer and on disk.

    Attributes:
        costs: The cost of batches and of drafted tokens.
        model: Acceptance by the draft model's probability.
        lookup: Acceptance by the length of a look-up's common past.
        trial: Whether the draft model is on.
        ledger: What may still be lost.
        curiosity: When to try what is thought too dear.
        gain: Share of plain decoding's time that rounds with the draft model have saved.
        idle_answers: Answers in a row that the draft model was left out of because it could not pay.
        least_ns: The least that a plain step was ever seen to take on this machine, nanoseconds; 0 before the first.
    """

    costs: CostModel
    model: AcceptanceTable = field(default_factory=model_table)
    lookup: AcceptanceTable = field(default_factory=lookup_table)
    trial: Trial = field(default_factory=Trial)
    ledger: Ledger = field(default_factory=Ledger)
    curiosity: Curiosity = field(default_factory=Curiosity)
    gain: float = 0.2
    idle_answers: int = 0
    least_ns: float = 0.0

    SECOND_LOOKS: ClassVar[tuple[int, ...]] = (1, 4, 16)
    """After so many answers in a row without the draft model its costs are measured again."""

    @property
    def wants_second_look(self) -> bool:
        """Whether the verdict that drafting cannot pay should be checked.

        It rests on one measurement, and whatever else the machine did meanwhile only ever made drafting look dearer;
        what is never tried is never corrected.
        """
        return self.idle_answers in self.SECOND_LOOKS

    def measured_anew(self, costs: CostModel) -> Memory:
        """Other costs with what was learned of the models' agreement, and of the context if nothing newer is known."""
        profile, old = costs.profile, self.costs.snapshot()
        if not profile.cells:
            faster = profile.rows[1] / old.rows[1]
            costs = CostModel(replace(profile, cells={width: faster * ns for width, ns in old.cells.items()}))
        return Memory(costs, self.model, self.lookup, least_ns=self.least_ns)

    def keep_least(self) -> None:
        """Note what a plain step takes now, if that is less than ever before."""
        now = self.costs.target_ns(1, 0)
        self.least_ns = min(self.least_ns or now, now)

    def remeasure(self, profile: CostProfile) -> None:
        """Take the costs of a second measurement where they are lower: other work only ever adds."""
        # Single rows were seen in every plain step since; the rest counts in terms of them, as it was measured.
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
