"""A batch of one sequence: the native arrays that a decode reads, allocated once and written in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from app.llama.library import native

SEQUENCE = 0
"""The only one that a context has."""
_FEW = 16
"""Up to so many ids are written one by one; NumPy takes longer to look at them."""


class Batch:
    """Owns a native batch.

    Args:
        size: Most tokens that it holds.
        n_ctx: Positions that there are.
    """

    def __init__(self, size: int, n_ctx: int) -> None:
        self.native: Any = native.llama_batch_init(size, 0, 1)
        self._tokens = np.ctypeslib.as_array(self.native.token, (size,))
        self._positions = np.ctypeslib.as_array(self.native.pos, (size,))
        self._flags = np.ctypeslib.as_array(self.native.logits, (size,))
        for i in range(size):
            self.native.n_seq_id[i] = 1
            self.native.seq_id[i][0] = SEQUENCE
        self._all_positions = np.arange(n_ctx, dtype=np.int32)

    def fill(self, tokens: Sequence[int], n_past: int, n_outputs: int) -> None:
        """Write tokens at the positions behind `n_past`, the last `n_outputs` of them with an output."""
        n = len(tokens)
        if n <= _FEW:
            batch = self.native
            for i, token in enumerate(tokens):
                batch.token[i] = token
        else:
            self._tokens[:n] = tokens
        self._positions[:n] = self._all_positions[n_past : n_past + n]
        self._flags[: n - n_outputs] = 0
        self._flags[n - n_outputs : n] = 1
        self.native.n_tokens = n

    def close(self) -> None:
        """Free it, once."""
        # The views point into what is freed.
        del self._tokens, self._positions, self._flags
        native.llama_batch_free(self.native)
