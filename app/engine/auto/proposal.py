"""A draft while it is made, and what a look-up adds to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, islice
from operator import mul

from app.engine.auto.acceptance import AcceptanceTable
from app.engine.drafters.ngram import NOTHING, Continuation, NgramIndex
from app.engine.interfaces import AnswerStart, IsEnd, never_ends
from app.engine.types import MAX_DRAFT, Draft, StepResult

_FIRST_REACH = 24
"""Tokens of a look-up that are believed at first; a continuation that stops fitting stops for all that follow, so
per-token odds overrate long ones until one has held."""


@dataclass(slots=True)
class Proposal:
    """One round's draft while it is made: survival products, and who proposed each token with what confidence.

    Attributes:
        ends: Whether the last of its tokens ends the answer, so that nothing comes behind it.
    """

    products: list[float] = field(default_factory=list)
    features: list[tuple[bool, float]] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    ends: bool = False

    @property
    def gains(self) -> list[float]:
        """The tokens that each one is expected to bring.

        The end brings none, for the row before it lets the target say the same and its own would be thrown away; it
        can only fill a batch up to a width that costs less.
        """
        return [*self.products[:-1], 0.0] if self.ends else self.products

    def foretells_end(self, sure: float) -> bool:
        """Whether the very next token ends the answer, with at least such a probability."""
        return self.ends and len(self.tokens) == 1 and self.survival >= sure

    @property
    def survival(self) -> float:
        return self.products[-1] if self.products else 1.0

    def look_up(self, tokens: Sequence[int], probabilities: Sequence[float], support: Sequence[float]) -> None:
        """Go on with tokens of a look-up."""
        self.tokens += tokens
        self.products += islice(accumulate(probabilities, mul, initial=self.survival), 1, None)
        self.features += [(False, votes) for votes in support]

    def first(self, n: int) -> Draft:
        """What is submitted of it."""
        by_model, confidences = zip(*self.features[:n], strict=True) if n else ((), ())
        return Draft(tuple(self.tokens[:n]), tuple(self.products[:n]), sum(by_model), tuple(confidences))


class NgramSource:
    """What was said before, as a source of drafts: it is asked in every round and learns from every one.

    Args:
        index: Over everything said so far, or None for a source that never says anything.
        table: How often it is right; updated in place.
    """

    def __init__(self, index: NgramIndex | None, table: AcceptanceTable) -> None:
        self._index = index
        self._table = table
        self._is_end: IsEnd = never_ends
        self._heard = NOTHING
        self._reach = _FIRST_REACH

    @property
    def is_there(self) -> bool:
        return self._index is not None

    @property
    def match_length(self) -> int:
        """Tokens that the present place shares with the one that is continued."""
        return self._heard.match_length

    def follow(self, start: AnswerStart) -> None:
        """Index the text of an answer that begins; the end tokens in it ended other turns."""
        self._is_end = start.is_end
        if self._index is not None:
            self._index.follow(start.sequence)

    def hear(self, limit: int) -> None:
        """Ask in every round, also when it is not used: what follows labels the answer for nothing."""
        self._heard = self._index.continuation((), limit) if self._index is not None else NOTHING

    def alone(self) -> Proposal:
        """The continuation that was heard, as a draft."""
        proposal = Proposal()
        self._extend(proposal, self._heard)
        return proposal

    def extend(self, proposal: Proposal, limit: int) -> None:
        """Let it go on behind a draft, for nothing."""
        if self._index is not None and len(proposal.tokens) < limit and not proposal.ends:
            self._extend(proposal, self._index.continuation(proposal.tokens, limit - len(proposal.tokens)))

    def _extend(self, proposal: Proposal, found: Continuation) -> None:
        tokens = found.tokens[: self._reach]
        for n, token in enumerate(tokens, start=1):
            if self._is_end(token):
                tokens, proposal.ends = tokens[:n], True
                break
        support = found.support[: len(tokens)]
        proposal.look_up(tokens, self._table.probabilities(support, len(proposal.tokens)), support)

    def learn(self, result: StepResult) -> None:
        """Take a round's tokens as labels of what was heard, and as text to look up later."""
        n_looked = len(result.draft) - result.draft.n_model
        if n_looked and result.n_accepted == len(result.draft):
            self._reach = min(MAX_DRAFT, max(self._reach, 2 * n_looked))
        elif n_looked:
            self._reach = max(_FIRST_REACH, result.n_accepted - result.draft.n_model)
        labels: list[tuple[float, int, bool]] = []
        heard = zip(self._heard.tokens, self._heard.support, result.tokens, strict=False)
        for depth, (said, support, token) in enumerate(heard):
            labels.append((support, depth, said == token))
            if said != token:
                break
        self._table.observe(labels)
        if self._index is not None:
            self._index.grow(result.tokens)
