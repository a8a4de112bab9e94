"""The drafter that never drafts: plain decoding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from app.engine.interfaces import Cancelled, DraftPolicy
from app.engine.types import NO_DRAFT, Draft


class NoDrafter:
    """Proposes nothing, holds nothing, costs nothing."""

    name = "none"
    native_ns = 0

    def begin(self, tokens: Sequence[int], cancelled: Cancelled) -> Iterator[int]:
        return iter(())

    def draft(self, tokens: Sequence[int], limit: int, policy: DraftPolicy) -> Draft:
        return NO_DRAFT

    def accept(self, n_accepted: int) -> None:
        pass
