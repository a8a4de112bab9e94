"""The interface of every source of drafts: draft models, layers on the target's hidden rows, and n-grams."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from app.engine.cache import TokenCache
from app.engine.interfaces import Cancelled, IsEnd, Judge, Logits, Verdict
from app.engine.sources import Source
from app.engine.types import MAX_DRAFT, Draft


class DraftSource:
    """Proposes tokens after a text. Strategies chain several sources; see `Source.is_free`.

    Every text ends with a token that the target has not evaluated. The defaults suit a source without a model. Methods
    that evaluate raise AppError on failure; the answer then continues without the source.

    Attributes:
        kind: Its row in the table of sources.
        cache: KV cache that is saved and restored with the target's, if the source has one.
    """

    cache: TokenCache | None = None

    def __init__(self, kind: Source, longest: int = MAX_DRAFT) -> None:
        self.kind = kind
        self.longest = longest

    @property
    def native_ns(self) -> int:
        """Return the nanoseconds spent inside native calls so far."""
        return self.cache.native_ns if self.cache is not None else 0

    @property
    def is_broken(self) -> bool:
        """Return whether the computation of a batch failed, so that the source must not be used again."""
        return self.cache is not None and self.cache.is_broken

    @property
    def follows(self) -> bool:
        """Return whether it reads each target batch immediately, so that no text is left to read."""
        return self.cache is None

    @property
    def logits(self) -> Logits | None:
        """Return the logits of the first drafted token, if any; valid only while the judge is called for it."""
        return None

    @property
    def reason(self) -> str:
        """Return the reason for the last draft, as a clause."""
        return f"the {self.kind.label} proposes tokens"

    def configure(self, min_match: int, other_texts: Iterable[Sequence[int]]) -> None:
        """Take the shortest match of the next answer, and the tokens of other texts that it may repeat."""

    def prepare(self, prompt: Sequence[int], *, drafts: bool) -> None:
        """Prepare for a prompt that the target will read; `drafts` says whether this answer may use the source."""

    def begin(self, tokens: Sequence[int], cancelled: Cancelled) -> Iterator[int]:
        """Read a text; yield the tokens read after each chunk."""
        return iter(())

    def unread(self, tokens: Sequence[int]) -> int:
        """Roll back to the common prefix with a text; return how many tokens must be read before drafting."""
        return 0

    def read(self, tokens: Sequence[int], limit: int) -> None:
        """Read at least the next `limit` missing tokens."""
        self.catch_up(tokens)

    def catch_up(self, tokens: Sequence[int]) -> None:
        """Read all missing tokens, without progress or a way to cancel."""
        for _ in self.begin(tokens, lambda: False):
            pass

    def draft(self, tokens: Sequence[int], limit: int, judge: Judge) -> Draft:
        """Propose up to `limit` tokens, at least one, after a text; read missing tokens first.

        The judge decides after each token of a model. A free source proposes all tokens at once.
        """
        raise NotImplementedError

    def accept(self, tokens: Sequence[int], n_accepted: int) -> None:
        """Take the tokens that a step emitted; if it drafted, roll back to the accepted tokens."""

    def pause(self) -> None:
        """Stop following the target, because no draft can gain; the next read or draft catches up."""


def judged_draft(
    kind: Source, proposals: Iterable[tuple[int, float]], limit: int, judge: Judge, is_end: IsEnd
) -> Draft:
    """Take tokens with their probabilities until the judge, the limit or an end token ends the draft.

    The next token is computed only if the draft continues.
    """
    drafted: list[int] = []
    probabilities: list[float] = []
    for token, probability in proposals:
        verdict = judge(len(drafted), probability)
        if verdict is Verdict.DROP:
            break
        drafted.append(token)
        probabilities.append(probability)
        if verdict is Verdict.LAST or len(drafted) == limit or is_end(token):
            break
    return Draft.of(kind, drafted, probabilities)
