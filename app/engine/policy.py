"""Drafting policies: how far to draft, and how much of it to submit."""

from __future__ import annotations

from app.engine.types import Draft, DraftParams


class FixedPolicy:
    """llama.cpp's three numbers, the same in every round."""

    def __init__(self, params: DraftParams) -> None:
        self.params = params

    def limit(self) -> int:
        return self.params.n_max

    def take(self, depth: int, probability: float) -> bool:
        """A candidate below p_min is not drafted, the first one included."""
        return probability >= self.params.p_min

    def n_submit(self, draft: Draft) -> int:
        return len(draft) if len(draft) >= self.params.n_min else 0
