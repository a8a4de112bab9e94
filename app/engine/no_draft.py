"""No drafting: one token per step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from app.engine.interfaces import AnswerStart, Cancelled
from app.engine.types import NO_DRAFT, Draft, DraftingStatus, StepResult


class NoDrafting:
    """Propose nothing.

    Args:
        why: Why there are no drafts, as a clause, if they were enabled; else "".
    """

    native_ns = 0

    def __init__(self, why: str = "") -> None:
        self.status = DraftingStatus("off", why) if why else None

    def begin(self, start: AnswerStart, cancelled: Cancelled) -> Iterator[int]:
        return iter(())

    def propose(self, sequence: Sequence[int], limit: int) -> Draft:
        return NO_DRAFT

    def lose_model(self) -> None:
        pass

    def observe(self, result: StepResult) -> None:
        pass
