"""Drafting with a small model of the same vocabulary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from app.engine.cache import TokenCache, common_prefix
from app.engine.draft_source import DraftSource
from app.engine.interfaces import Cancelled, IsEnd, Judge, Logits, Verdict
from app.engine.probability import most_probable
from app.engine.sources import Source
from app.engine.types import NO_DRAFT, Draft


class ModelDrafter(DraftSource):
    """Draft greedily with a model that has its own cache.

    The draft model does not evaluate the verify batch; its cache keeps the drafted tokens that were accepted. Let a
    step start with `n` tokens and draft `k`, of which the target accepts `a`. The last drafted token is not evaluated,
    unless the judge dropped a token after it. So after `accept` the cache holds `n + min(a, k - 1)` tokens (`n + a`
    after a dropped token). The next draft evaluates one missing token, or two if all were accepted.

    `n_vocab` is the number of ids that draft and target share: padded vocabularies differ in size.
    """

    cache: TokenCache

    def __init__(self, cache: TokenCache, n_vocab: int, is_end: IsEnd) -> None:
        super().__init__(Source.MODEL)
        self.cache = cache
        self._n_vocab = n_vocab
        self._is_end = is_end
        self._n_before_draft: int | None = None
        """Length of the text before the last draft; None once its outcome is known."""

    @property
    def logits(self) -> Logits:
        return self.cache.logits(0)

    def unread(self, tokens: Sequence[int]) -> int:
        # An answer may have been stopped between a draft and its outcome.
        self._n_before_draft = None
        return len(tokens) - 1 - self.cache.rollback(common_prefix(self.cache.tokens, tokens[:-1]))

    def read(self, tokens: Sequence[int], limit: int) -> None:
        n_read = len(self.cache)
        for _ in self.cache.process(tokens[n_read : min(n_read + limit, len(tokens) - 1)], lambda: False):
            pass

    def begin(self, tokens: Sequence[int], cancelled: Cancelled) -> Iterator[int]:
        """Read all but the last token, which the first draft evaluates."""
        n_read = len(tokens) - 1 - self.unread(tokens)
        yield n_read
        yield from self.cache.process(tokens[n_read:-1], cancelled)

    def catch_up(self, tokens: Sequence[int]) -> None:
        """Read the missing tokens, unless `draft` evaluates them because they are the last one or two."""
        missing = len(tokens) - 1 - len(self.cache)
        if missing > 1:
            self.read(tokens, missing)

    def draft(self, tokens: Sequence[int], limit: int, judge: Judge) -> Draft:
        """Propose tokens one by one until the judge, the limit, an end token or the context ends the draft."""
        self._n_before_draft = len(tokens)
        # The last drafted token is not evaluated, so it needs no cell of the KV cache.
        limit = min(limit, self.cache.n_ctx - len(tokens) + 1)
        if limit <= 0:
            return NO_DRAFT
        self.catch_up(tokens)
        self.cache.evaluate(tokens[len(self.cache) :], n_outputs=1)
        drafted: list[int] = []
        probabilities: list[float] = []
        while True:
            token, probability = most_probable(self.cache.logits(0)[: self._n_vocab])
            verdict = judge(len(drafted), probability)
            if verdict is Verdict.DROP:
                break
            drafted.append(token)
            probabilities.append(probability)
            if verdict is Verdict.LAST or len(drafted) == limit or self._is_end(token):
                break
            self.cache.evaluate((token,), n_outputs=1)
        return Draft.of(self.kind, drafted, probabilities)

    def accept(self, tokens: Sequence[int], n_accepted: int) -> None:
        if self._n_before_draft is not None:
            self.cache.rollback(min(len(self.cache), self._n_before_draft + n_accepted))
            self._n_before_draft = None
