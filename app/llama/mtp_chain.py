"""Several MTP layers as a chain of heads: head i drafts token i (Step-3.5, MiMo-V2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from app.engine.interfaces import Rows
from app.engine.sources import Source
from app.engine.types import MAX_DRAFT
from app.llama.context import Context
from app.llama.draft_heads import HeadContext
from app.llama.library import native
from app.llama.model import Model
from app.models.draft_kinds import HeadFacts
from app.settings.model_params import ContextParams

_MOST_BEHIND = 64
"""Largest number of tokens that the later heads may be behind the first head."""


def head_context(model: Model, facts: HeadFacts, target: Context, params: ContextParams) -> HeadContext:
    """Create the context of draft layers; see `HeadContext`."""
    is_own = facts.kind is Source.MTP and not facts.shares_memory
    n_heads = int(native.llama_model_n_layer_nextn(model.handle)) if is_own else 1
    return (MtpChain if n_heads > 1 else HeadContext)(model, facts, target, params)


class MtpChain(HeadContext):
    """Owns the context of several MTP layers.

    Each head has its own keys and values; llama.cpp evaluates a batch with the selected head. The first head evaluates
    tokens when they are read. The others wait until they draft, and then evaluate their missing tokens and the drafted
    tokens in one batch: a step takes one batch per drafted token. Before each batch the KV cache is cut to what its
    head has read. Tokens are written to the same cells again, so other heads keep theirs.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._tokens: list[int] = []
        """The newest tokens, including drafted tokens, from the first that some head has not read."""
        self._token_rows: Rows = np.empty((0, 0), np.float32)
        self._end = self._n_text = 0
        """Position after these tokens, and position after the last token that is not drafted."""
        n_heads = int(native.llama_model_n_layer_nextn(self.model.handle))
        self.longest = min(MAX_DRAFT, n_heads)
        self._n_read = [0] * n_heads
        """Position after the last token that each head has read."""

    def _native_params(self, params: ContextParams) -> Any:
        raw = super()._native_params(params)
        # A sliding-window cache may put the same tokens into other cells.
        raw.swa_full = True
        return raw

    # app.engine.interfaces.HeadModel

    def read(self, start: int, tokens: Sequence[int], rows: Rows, n_outputs: int) -> None:
        if not self._tokens:
            self._n_read = [start] * len(self._n_read)
        self._append(start, tokens, rows)
        self._n_text = self._end
        if not n_outputs or len(self._tokens) > _MOST_BEHIND:
            for head in range(1, len(self._n_read)):
                self._evaluate_head(head, self._end - n_outputs, 0)
        self._evaluate_head(0, self._end, n_outputs)
        self._drop_read()

    def draft_next(self, position: int, token: int) -> None:
        self._copy_row()
        self._append(position, (token,), self._head_batch.rows[:1])
        self._evaluate_head(self._end - self._n_text, self._end, 1)

    def rollback(self, position: int) -> None:
        if position < self._end:
            kept = max(0, len(self._tokens) - (self._end - position))
            self._tokens, self._token_rows = self._tokens[:kept], self._token_rows[:kept]
            self._n_read, self._end = [min(n, position) for n in self._n_read], position
            self._drop_read()
        super().rollback(position)

    def clear(self) -> None:
        self._tokens, self._end = [], 0
        super().clear()

    def _append(self, start: int, tokens: Sequence[int], rows: Rows) -> None:
        self._token_rows = np.concatenate((self._token_rows, rows)) if self._tokens else rows
        self._tokens = [*self._tokens, *tokens]
        self._end = start + len(tokens)

    def _evaluate_head(self, head: int, end: int, n_outputs: int) -> None:
        """Let a head evaluate the missing tokens before `end`."""
        start, first = self._n_read[head], self._end - len(self._tokens)
        if start == end:
            return
        super().rollback(start)
        self._functions["set_head"](self._open(), head)
        part = slice(start - first, end - first)
        super().read(start, self._tokens[part], self._token_rows[part], n_outputs)
        self._n_read[head] = end

    def _drop_read(self) -> None:
        n = min(self._n_read) - (self._end - len(self._tokens))
        self._tokens, self._token_rows = self._tokens[n:], self._token_rows[n:]
