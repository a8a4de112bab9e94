"""Drafting with a small model, or with layers that read the target's rows: MTP layers, EAGLE-3 heads, DFlash blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

import numpy as np

from app.core.errors import AppError, ComputeError
from app.engine.cache import TokenCache, common_prefix
from app.engine.draft_source import DraftSource, judged_draft
from app.engine.interfaces import Cancelled, HeadModel, IsEnd, Judge, Logits, Rows
from app.engine.probability import most_probable
from app.engine.sources import Source
from app.engine.types import NO_DRAFT, Draft

_MOST_PENDING = 64
"""Largest number of accepted tokens that wait for the next draft; a longer queue is read in one batch."""
_KEPT_ENDS = 64
"""Number of prompt batches whose last row is saved. A recurrent target is restored to the end of one of them."""


class ModelDrafter(DraftSource):
    """Drafts greedily with a model that has its own cache.

    The draft model does not evaluate the verify batch; its cache keeps the accepted drafted tokens. Let a step start
    with `n` tokens and draft `k`, of which the target accepts `a`. The last drafted token is not evaluated, unless the
    judge dropped a token after it. So after `accept` the cache holds `n + min(a, k - 1)` tokens (`n + a` after a
    dropped token). The next draft evaluates one missing token, or two if all were accepted.

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
        """Read all tokens except the last, which the first draft evaluates."""
        n_read = len(tokens) - 1 - self.unread(tokens)
        yield n_read
        yield from self.cache.process(tokens[n_read:-1], cancelled)

    def catch_up(self, tokens: Sequence[int]) -> None:
        """Read the missing tokens, unless only the last one or two are missing, which `draft` evaluates."""
        missing = len(tokens) - 1 - len(self.cache)
        if missing > 1:
            self.read(tokens, missing)

    def draft(self, tokens: Sequence[int], limit: int, judge: Judge) -> Draft:
        """Propose tokens one by one until the judge, the limit, an end token or the context ends the draft."""
        self._n_before_draft = len(tokens)
        # The last drafted token is not evaluated, so it needs no KV cell.
        limit = min(limit, self.cache.n_ctx - len(tokens) + 1)
        if limit <= 0:
            return NO_DRAFT
        self.catch_up(tokens)
        return judged_draft(self.kind, self._proposals(tokens[len(self.cache) :]), limit, judge, self._is_end)

    def _proposals(self, missing: Sequence[int]) -> Iterator[tuple[int, float]]:
        """Evaluate the end of the text, then each drafted token; yield the most probable next token each time."""
        while True:
            self.cache.evaluate(missing, n_outputs=1)
            token, probability = most_probable(self.cache.logits(0)[: self._n_vocab])
            yield token, probability
            missing = (token,)

    def accept(self, tokens: Sequence[int], n_accepted: int) -> None:
        if self._n_before_draft is not None:
            self.cache.rollback(min(len(self.cache), self._n_before_draft + n_accepted))
            self._n_before_draft = None


class HiddenDrafter(DraftSource):
    """Drafts greedily with layers that read the target's hidden rows.

    The target's cache calls `follow` after each batch, which takes the hidden rows. Rows of a prompt batch are read
    immediately. Rows of a verify batch wait for the next draft, which reads only the rows of accepted tokens.

    A step starts with `n` tokens, of which the target has evaluated the first `n - 1`. With `row_shift` 1 (MTP,
    EAGLE-3), position i takes token i and row i - 1: a draft begins with one batch of the accepted tokens and the last
    token. With `row_shift` 0 (DFlash), position i takes row i alone: the last token begins the block. After a draft,
    the KV cache of the layers holds only tokens that the target has accepted.

    While no draft can gain, the drafter does not follow the target and costs nothing (`pause`). To catch up, the target
    evaluates the missed tokens again.
    """

    def __init__(self, kind: Source, target: TokenCache, head: HeadModel, is_end: IsEnd) -> None:
        super().__init__(kind, head.longest)
        self._target = target
        self._head = head
        self._is_end = is_end
        self._failure: AppError | None = None
        self._tokens: list[int] = []
        """The target's tokens with known rows, perhaps followed by the last token of the last draft."""
        self._rows: Rows = np.empty((0, 0), np.float32)
        """The newest rows, shape (k, width), for the positions from `_n_rows - k` to `_n_rows - 1`."""
        self._n_rows = self._n_read = 0
        self._is_paused = False
        self._ends: dict[int, Rows] = {}
        """The last row of each prompt batch, shape (1, width), by position."""
        self._follow(True)

    @property
    def native_ns(self) -> int:
        return self._head.native_ns

    @property
    def is_broken(self) -> bool:
        return isinstance(self._failure, ComputeError)

    # app.engine.interfaces.Follower

    def can_follow_from(self, n_past: int) -> bool:
        first = self._n_rows - len(self._rows)
        return not self._head.row_shift or n_past == 0 or first < n_past <= self._n_rows or n_past - 1 in self._ends

    def follow(self, tokens: Sequence[int], n_new: int, n_outputs: int) -> None:
        if self.is_broken:
            return
        n_before = len(tokens) - n_new
        try:
            self._take(tokens, n_before, self._head.hidden_rows(n_new))
            if n_outputs <= 1 and n_new > 1:
                self._ends[len(tokens) - 1] = self._rows[-1:].copy()
                if len(self._ends) > _KEPT_ENDS:
                    del self._ends[next(iter(self._ends))]
            # Drafted tokens may still be rejected.
            n_sure = len(tokens) if n_outputs <= 1 else n_before + 1
            if n_sure - self._n_read > _MOST_PENDING:
                self._read_to(n_sure)
        except AppError as error:
            # The target's batch succeeded; the next draft reports the failure.
            self._fail(error)

    def forget(self) -> None:
        self._tokens, self._n_rows, self._n_read, self._ends = [], 0, 0, {}
        self._rows = self._rows[:0]
        self._head.clear()

    # app.engine.draft_source.DraftSource

    @property
    def follows(self) -> bool:
        return self._target.follower is self

    def pause(self) -> None:
        self._follow(False)

    def _follow(self, is_on: bool) -> None:
        self._target.follower = self if is_on else None
        self._head.compute_rows(is_on)

    def prepare(self, prompt: Sequence[int], *, drafts: bool) -> None:
        """Do not follow in an answer without drafts; follow again in the next answer if no missed text is needed."""
        if not drafts:
            self._is_paused = self._is_paused or self.follows
            self.pause()
        elif self._is_paused:
            self._is_paused = False
            n_kept = common_prefix(self._target.tokens, prompt)
            if common_prefix(self._tokens[: self._n_rows], prompt[:n_kept]) == n_kept:
                self._follow(True)

    @property
    def logits(self) -> Logits | None:
        return self._head.first_logits

    def unread(self, tokens: Sequence[int]) -> int:
        return 0 if self.follows else len(tokens) - 1 - self._n_known(tokens)

    def begin(self, tokens: Sequence[int], cancelled: Cancelled) -> Iterator[int]:
        """Raise an earlier failure; follow the target again after a pause."""
        self._report()
        if not self.follows:
            n_known = self._n_known(tokens)
            self._follow(True)
            # Evaluate the last known token again: its row may be gone, and the recurrent state may be further ahead.
            yield self._target.rollback(max(0, n_known - 1))
            yield from self._target.process(tokens[len(self._target) : -1], cancelled)
        yield len(tokens) - 1

    def _n_known(self, tokens: Sequence[int]) -> int:
        """Return the length of the prefix with known rows, at most all tokens except the last."""
        return common_prefix(self._tokens[: self._n_rows], tokens[:-1])

    def draft(self, tokens: Sequence[int], limit: int, judge: Judge) -> Draft:
        """Propose tokens until the judge, the limit, an end token or the context ends the draft."""
        self.catch_up(tokens)
        head, n = self._head, len(tokens)
        limit = min(limit, self.longest, head.n_ctx - n)
        self._agree(tokens)
        if limit <= 0 or self._n_rows < n - 1:
            return NO_DRAFT
        try:
            draft = judged_draft(self.kind, self._proposals(tokens, limit), limit, judge, self._is_end)
            head.rollback(self._n_read)
        except AppError as error:
            self._fail(error)
            self._report()
        return draft

    def _proposals(self, tokens: Sequence[int], limit: int) -> Iterator[tuple[int, float]]:
        """Read the pending tokens, then yield drafted tokens; a block computes all of them at once."""
        head, n = self._head, len(tokens)
        if self.kind.is_block:
            self._read_to(n - 1)
            head.block(n - 1, tokens[-1], limit)
            yield from map(head.drafted, range(limit))
            return
        start = min(self._n_read, n - 1)
        head.rollback(start)
        head.read(start, tokens[start:], self._rows_of(start, n), 1)
        self._n_read = n
        self._drop_rows()
        for position in count(n):
            token, probability = head.drafted(0)
            yield token, probability
            head.draft_next(position, token)

    def _agree(self, tokens: Sequence[int]) -> None:
        """Drop rows of rejected tokens."""
        n_read = self._n_read = min(self._n_read, len(tokens))
        excess = max(0, self._n_rows - (len(tokens) - 1))
        self._rows = self._rows[: max(0, len(self._rows) - excess)]
        self._n_rows -= excess
        self._tokens[n_read:] = tokens[n_read:]

    def _take(self, tokens: Sequence[int], n_before: int, rows: Rows) -> None:
        head, known = self._head, self._tokens
        first = self._n_rows - len(self._rows)
        old = rows[:0]
        if first < n_before <= self._n_rows:
            old = self._rows[: n_before - first]
        elif n_before - 1 in self._ends:
            old = self._ends[n_before - 1]
        n_same = n_before + common_prefix(known[n_before : len(tokens)], tokens[n_before:])
        n_read = min(self._n_read, n_same)
        if n_before > self._n_rows or max(0, n_read - head.row_shift) < n_before - len(old):
            # Rows are missing because the target's state was restored. Attention begins here.
            self.forget()
            known, old, n_read = self._tokens, rows[:0], n_before + head.row_shift * (n_before > 0)
        elif n_read < self._n_read:
            head.rollback(n_read)
        known[n_before:] = tokens[n_before:] if len(known) >= n_before else tokens
        self._rows = np.concatenate((old, rows)) if len(old) else rows
        self._n_rows, self._n_read = len(tokens), n_read
        if self._ends and next(reversed(self._ends)) >= n_before:
            self._ends = {at: row for at, row in self._ends.items() if at < n_before}

    def _rows_of(self, start: int, end: int) -> Rows:
        shift, first = self._head.row_shift, self._n_rows - len(self._rows)
        rows = self._rows[max(0, start - shift - first) : end - shift - first]
        return np.concatenate((np.zeros_like(self._rows[:1]), rows)) if start < shift else rows

    def _read_to(self, end: int) -> None:
        start = self._n_read
        if start < end:
            self._head.read(start, self._tokens[start:end], self._rows_of(start, end), 0)
            self._n_read = end
        self._drop_rows()

    def _drop_rows(self) -> None:
        """Drop rows that were read, except the row for reading the last position again."""
        first = self._n_rows - len(self._rows)
        self._rows = self._rows[max(0, self._n_read - 1 - self._head.row_shift - first) :]

    def _fail(self, error: AppError) -> None:
        self._failure = error
        self.forget()

    def _report(self) -> None:
        """Raise the failure of an earlier batch: once, or every time if the drafter is broken."""
        if self._failure is not None:
            failure, self._failure = self._failure, self._failure if self.is_broken else None
            raise failure
