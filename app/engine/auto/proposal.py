"""A draft while it is made, and n-gram drafting as one of its sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, islice
from operator import mul

from app.engine.auto.acceptance import AcceptanceTable
from app.engine.drafters.ngram import NOTHING, Continuation, NgramIndex
from app.engine.interfaces import AnswerStart, IsEnd, never_ends
from app.engine.types import Draft, StepResult


@dataclass(slots=True)
class Proposal:
    """The draft of one step while it is made.

    Attributes:
        tokens: The tokens so far.
        products: Probability that each one and all before it are accepted.
        features: For each token, whether the draft model proposed it, and with what confidence.
        ends: Whether the last token ends the answer.
    """

    tokens: list[int] = field(default_factory=list)
    products: list[float] = field(default_factory=list)
    features: list[tuple[bool, float]] = field(default_factory=list)
    ends: bool = False

    @property
    def gains(self) -> list[float]:
        """The expected tokens of each position.

        An end token gives none: the position before it lets the target say the same. It can only fill a batch up.
        """
        return [*self.products[:-1], 0.0] if self.ends else self.products

    def predicts_end(self, sure: float) -> bool:
        """Return whether the next token ends the answer, with at least this probability."""
        return self.ends and len(self.tokens) == 1 and self.survival >= sure

    @property
    def survival(self) -> float:
        return self.products[-1] if self.products else 1.0

    def add_ngram(self, tokens: Sequence[int], probabilities: Sequence[float], support: Sequence[float]) -> None:
        """Append tokens of n-gram drafting."""
        self.tokens += tokens
        self.products += islice(accumulate(probabilities, mul, initial=self.survival), 1, None)
        self.features += [(False, votes) for votes in support]

    def first(self, n: int) -> Draft:
        """Return the first `n` tokens as a draft."""
        by_model, confidences = zip(*self.features[:n], strict=True) if n else ((), ())
        return Draft(tuple(self.tokens[:n]), tuple(self.products[:n]), sum(by_model), tuple(confidences))


class NgramSource:
    """N-gram drafting as a source: asked in each step, and corrected by each step.

    Args:
        index: Everything said so far; None for a source that proposes nothing.
        table: How often it is right; updated in place.
    """

    def __init__(self, index: NgramIndex | None, table: AcceptanceTable) -> None:
        self._index = index
        self._table = table
        self._is_end: IsEnd = never_ends
        self._found = NOTHING

    @property
    def is_there(self) -> bool:
        return self._index is not None

    @property
    def match_length(self) -> int:
        """Tokens that agree with the earlier place that is continued."""
        return self._found.match_length

    def follow(self, start: AnswerStart) -> None:
        """Index the text of a new answer; end tokens in it ended other turns."""
        self._is_end = start.is_end
        if self._index is not None:
            self._index.follow(start.sequence)

    def find(self, limit: int) -> None:
        """Find a continuation; also where it is not used, the next tokens show whether it was right."""
        self._found = self._index.continuation((), limit) if self._index is not None else NOTHING

    def alone(self) -> Proposal:
        """Return the continuation that was found as a proposal."""
        proposal = Proposal()
        self._extend(proposal, self._found)
        return proposal

    def extend(self, proposal: Proposal, limit: int) -> None:
        """Continue a proposal of the draft model, at no cost."""
        if self._index is not None and len(proposal.tokens) < limit and not proposal.ends:
            self._extend(proposal, self._index.continuation(proposal.tokens, limit - len(proposal.tokens)))

    def _extend(self, proposal: Proposal, found: Continuation) -> None:
        tokens = found.tokens
        for n, token in enumerate(tokens, start=1):
            if self._is_end(token):
                tokens, proposal.ends = tokens[:n], True
                break
        support = found.support[: len(tokens)]
        proposal.add_ngram(tokens, self._table.probabilities(support, len(proposal.tokens)), support)

    def learn(self, result: StepResult) -> None:
        """Learn from the tokens of a step whether the continuation was right, and index them."""
        labels: list[tuple[float, int, bool]] = []
        found = zip(self._found.tokens, self._found.support, result.tokens, strict=False)
        for depth, (proposed, support, token) in enumerate(found):
            labels.append((support, depth, proposed == token))
            if proposed != token:
                break
        self._table.observe(labels)
        if self._index is not None:
            self._index.grow(result.tokens)
