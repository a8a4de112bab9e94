"""Drafting by llama.cpp's three numbers, the same in every round."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from app.engine.interfaces import Cancelled, ModelDrafting, Verdict
from app.engine.types import NO_DRAFT, Draft, DraftParams, Round


class FixedDrafting:
    """Draft up to n_max tokens, none below p_min, and submit them if they are at least n_min.

    Args:
        drafter: The draft model.
        params: The three numbers.
    """

    status = None

    def __init__(self, drafter: ModelDrafting, params: DraftParams) -> None:
        self._drafter = drafter
        self._drafting = False
        self.params = params

    @property
    def native_ns(self) -> int:
        return self._drafter.native_ns

    def begin(
        self, sequence: Sequence[int], expected_tokens: int, cancelled: Cancelled, plain_ns: int = 0
    ) -> Iterator[int]:
        if self.params.n_max == 0:
            return iter(())
        return self._drafter.begin(sequence, cancelled)

    def propose(self, sequence: Sequence[int], limit: int) -> Draft:
        limit = min(limit, self.params.n_max)
        self._drafting = limit > 0
        if not self._drafting:
            return NO_DRAFT
        draft = self._drafter.draft(sequence, limit, self._judge)
        return draft if len(draft) >= self.params.n_min else NO_DRAFT

    def _judge(self, depth: int, probability: float) -> Verdict:
        """Asked before a token is taken, so that an unlikely first one is not drafted either."""
        return Verdict.TAKE if probability >= self.params.p_min else Verdict.DROP

    def observe(self, round_: Round) -> None:
        if self._drafting:
            self._drafter.accept(round_.n_accepted)
