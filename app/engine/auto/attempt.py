"""One round of automatic drafting, while it is made."""

from __future__ import annotations

from dataclasses import dataclass, field

from app.engine.auto.proposal import Proposal


@dataclass(slots=True)
class Attempt:
    """What was tried in a round.

    Attributes:
        last_rows: Width of the batch before.
        proposal: The draft, with what was drafted and not submitted.
        used_model: Whether the draft model took part.
        n_drafted: Tokens that it drafted.
        catch_up_ns: What it took to read what it had missed.
        expected: What the round was expected to bring beyond a plain step, in tokens.
        n_rows: Width of the batch, once it has run.
        has_failed: Whether the draft model failed in it, so that all it took brought nothing.
    """

    last_rows: int = 1
    proposal: Proposal = field(default_factory=Proposal)
    used_model: bool = False
    n_drafted: int = 0
    catch_up_ns: int = 0
    expected: float = 0.0
    n_rows: int = 1
    has_failed: bool = False
