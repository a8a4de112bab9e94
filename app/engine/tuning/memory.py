"""What automatic drafting knows about a pair."""

from __future__ import annotations

from dataclasses import dataclass, field

from app.engine.tuning.acceptance import AcceptanceTable, lookup_table, model_table
from app.engine.tuning.curve import CostModel
from app.engine.tuning.guard import Ledger, Trial


@dataclass(slots=True)
class Memory:
    """What automatic drafting knows about a pair, kept from answer to answer and on disk.

    Attributes:
        costs: The cost of batches and of drafted tokens.
        model: Acceptance by the draft model's probability.
        lookup: Acceptance by the length of a look-up's common past.
        trial: Whether the draft model is on.
        ledger: What may still be lost.
        gain: Share of plain decoding's time that rounds with the draft model have saved.
    """

    costs: CostModel
    model: AcceptanceTable = field(default_factory=model_table)
    lookup: AcceptanceTable = field(default_factory=lookup_table)
    trial: Trial = field(default_factory=Trial)
    ledger: Ledger = field(default_factory=Ledger)
    gain: float = 0.2
