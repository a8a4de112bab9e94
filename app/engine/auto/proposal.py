"""A draft under construction, and n-gram drafting as one of its sources."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate, islice
from operator import mul

from app.engine.auto.acceptance import AcceptanceTable
from app.engine.interfaces import AnswerStart, IsEnd, StepResult
from app.engine.ngram import NOTHING, Continuation, NgramIndex
from app.engine.types import Draft


@dataclass(slots=True)
class Proposal:
    """The draft of one step under construction.

    Attributes:
        tokens: The tokens so far.
        products: For each token, the probability that it and all before it are accepted.
        features: For each token, whether the draft model proposed it, and its confidence or n-gram support.
        ends: Whether the last token ends the answer.
    """

    tokens: list[int] = field(default_factory=list)
    products: list[float] = field(default_factory=list)
    features: list[tuple[bool, float]] = field(default_factory=list)
    ends: bool = False

    @property
    def gains(self) -> list[float]:
        """Return the expected tokens of each position.

        An end token gives none, because the target can choose it after the position before. It can only pad a batch.
        """
        return [*self.products[:-1], 0.0] if self.ends else self.products

    @property
    def survival(self) -> float:
        """Return the probability that all tokens so far are accepted."""
        return self.products[-1] if self.products else 1.0

    def first(self, n: int) -> Draft:
        """Return the first `n` tokens as a draft."""
        by_model, confidences = zip(*self.features[:n], strict=True) if n else ((), ())
        return Draft(tuple(self.tokens[:n]), tuple(self.products[:n]), sum(by_model), tuple(confidences))


@dataclass(slots=True)
class Attempt:
    """One step of automatic drafting.

    Attributes:
        proposal: The draft, and what was drafted but not submitted.
        used_model: Whether the draft model took part.
        n_drafted: Tokens that it drafted.
        catch_up_ns: Nanoseconds that it spent on text it had not read.
        expected: Expected gain of the step over a single token, in tokens.
        batch_size: Tokens of the target's batch, once it has run.
        has_failed: Whether the draft model failed.
    """

    proposal: Proposal
    used_model: bool = False
    n_drafted: int = 0
    catch_up_ns: int = 0
    expected: float = 0.0
    batch_size: int = 1
    has_failed: bool = False


class NgramSource:
    """N-gram drafting as a source of drafts; without an index it proposes nothing.

    It learns from every step, also from those that did not use it, and updates the table of acceptance by support.
    """

    def __init__(self, index: NgramIndex | None, table: AcceptanceTable) -> None:
        self.index = index
        self._table = table
        self._is_end: IsEnd = lambda token: False
        self.found = NOTHING
        """The continuation of the text before this step."""

    def follow(self, start: AnswerStart) -> None:
        """Index the text before a new answer."""
        self._is_end = start.is_end
        if self.index is not None:
            self.index.follow(start.sequence)

    def find(self, limit: int) -> None:
        """Find a continuation of the text."""
        self.found = self.index.continuation((), limit) if self.index is not None else NOTHING

    def proposal(self) -> Proposal:
        """Return the continuation that `find` found, as a proposal."""
        proposal = Proposal()
        self._extend(proposal, self.found)
        return proposal

    def extend(self, proposal: Proposal, limit: int) -> None:
        """Append a continuation to a proposal of the draft model."""
        if self.index is not None and len(proposal.tokens) < limit and not proposal.ends:
            self._extend(proposal, self.index.continuation(proposal.tokens, limit - len(proposal.tokens)))

    def _extend(self, proposal: Proposal, found: Continuation) -> None:
        tokens = found.tokens
        for n, token in enumerate(tokens, start=1):
            if self._is_end(token):
                tokens, proposal.ends = tokens[:n], True
                break
        support = found.support[: len(tokens)]
        probabilities = self._table.probabilities(support, len(proposal.tokens))
        proposal.tokens += tokens
        proposal.products += islice(accumulate(probabilities, mul, initial=proposal.survival), 1, None)
        proposal.features += [(False, value) for value in support]

    def learn(self, result: StepResult) -> None:
        """Learn whether the continuation was right, also if it was not submitted; index the step's tokens."""
        labels: list[tuple[float, int, bool]] = []
        found = zip(self.found.tokens, self.found.support, result.tokens, strict=False)
        for depth, (proposed, support, token) in enumerate(found):
            labels.append((support, depth, proposed == token))
            if proposed != token:
                break
        self._table.observe(labels)
        if self.index is not None:
            self.index.grow(result.tokens)
