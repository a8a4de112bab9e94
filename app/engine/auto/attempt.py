"""A draft under construction, and the record of one step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, islice
from operator import mul

from app.engine.auto.acceptance import AcceptanceTable
from app.engine.draft_source import DraftSource
from app.engine.interfaces import IsEnd
from app.engine.types import NO_DRAFT, Draft


@dataclass(slots=True)
class PendingDraft:
    """A draft under construction.

    Attributes:
        products: For each token, the probability that it and all earlier tokens are accepted.
    """

    draft: Draft = NO_DRAFT
    products: list[float] = field(default_factory=list)
    ends: bool = False

    @property
    def gains(self) -> list[float]:
        """Return the expected tokens of each position.

        An end token adds none, because the target can choose it after the previous position. It can only pad a batch.
        """
        return [*self.products[:-1], 0.0] if self.ends else self.products

    @property
    def survival(self) -> float:
        """Return the probability that all tokens so far are accepted."""
        return self.products[-1] if self.products else 1.0

    def extend(self, draft: Draft, table: AcceptanceTable, is_end: IsEnd) -> None:
        """Append the draft of a free source, up to a token that ends the answer."""
        n = next((n for n, token in enumerate(draft.tokens, start=1) if is_end(token)), 0)
        self.ends, more, mine = n > 0, draft.first(n or len(draft)), self.draft
        probabilities = table.probabilities(more.confidences, len(mine))
        self.products += islice(accumulate(probabilities, mul, initial=self.survival), 1, None)
        tokens, confidences = mine.tokens + more.tokens, mine.confidences + more.confidences
        self.draft = Draft(tokens, confidences, mine.sources + more.sources)


@dataclass(slots=True)
class Attempt:
    """A step of automatic drafting.

    Attributes:
        proposal: The draft, and tokens that were drafted but not submitted.
        found: The drafts of the free sources; they are judged even if they were not submitted.
        catch_up_ns: Time that the draft model spent on unread text.
        expected: Expected gain of the step over a single token, in tokens.
        batch_size: Tokens of the target's batch, once it has run.
    """

    proposal: PendingDraft = field(default_factory=PendingDraft)
    found: Sequence[Draft] = ()
    source: DraftSource | None = None
    used_model: bool = False
    n_drafted: int = 0
    catch_up_ns: int = 0
    expected: float = 0.0
    batch_size: int = 1
    has_failed: bool = False
