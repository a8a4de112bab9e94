"""Batches, and the parameters of a context, as structs of llama.cpp."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from app.engine.interfaces import Rows
from app.llama.library import native
from app.llama.params import FLASH_ATTENTION, ContextParams
from app.settings.placement import KV_TYPES

SEQUENCE = 0
"""The only sequence of a context."""
_MAX_TOKENS_WRITTEN_SINGLY = 16
"""Up to this many tokens are faster to write one by one than with NumPy."""


class NativeBatch:
    """Own a native batch of up to `size` tokens."""

    def __init__(self, size: int) -> None:
        self.native: Any = native.llama_batch_init(size, 0, 1)
        self._tokens = np.ctypeslib.as_array(self.native.token, (size,))
        self._positions = np.ctypeslib.as_array(self.native.pos, (size,))
        self._flags = np.ctypeslib.as_array(self.native.logits, (size,))
        for i in range(size):
            self.native.n_seq_id[i] = 1
            self.native.seq_id[i][0] = SEQUENCE

    def fill(self, tokens: Sequence[int], n_past: int, n_outputs: int) -> None:
        """Write tokens at the positions after `n_past`, the last `n_outputs` of them with an output."""
        n, batch = len(tokens), self.native
        batch.n_tokens = n
        if n <= _MAX_TOKENS_WRITTEN_SINGLY:
            ids, positions, flags = batch.token, batch.pos, batch.logits
            for i, token in enumerate(tokens):
                ids[i], positions[i], flags[i] = token, n_past + i, i >= n - n_outputs
            return
        self._tokens[:n] = tokens
        self._positions[:n] = np.arange(n_past, n_past + n)
        self._flags[: n - n_outputs] = 0
        self._flags[n - n_outputs : n] = 1

    def close(self) -> None:
        """Free it, once."""
        # The views point into what is freed.
        del self._tokens, self._positions, self._flags
        native.llama_batch_free(self.native)


@dataclass(frozen=True, slots=True)
class EncodedPicture:
    """A picture, or a slice of one, as rows that a target reads instead of tokens.

    Attributes:
        rows: Shape (n_cells, width).
        positions: Positions after the first one, shape (n_sections, n_cells): M-RoPE has four sections, others one.
        moves: 1 for each position that depends on the first one, else 0; of the same shape.
        n_positions: Positions that the picture takes.
        is_causal: Whether a row sees only those before it; if not, all rows must be in one batch.
    """

    rows: Rows
    positions: NDArray[np.int32]
    moves: NDArray[np.int32]
    n_positions: int
    is_causal: bool

    def batch(self, start: int, n: int, first: int, n_outputs: int) -> RowBatch:
        """Return rows from `start` on as a batch, for a picture whose first position is `first`."""
        part = slice(start, start + n)
        return RowBatch(self.rows[part], self.positions[:, part] + first * self.moves[:, part], n_outputs)


class PictureEncoder(Protocol):
    """Encoder of the pictures in a prompt."""

    def encoded(self, ids: Sequence[int]) -> EncodedPicture:
        """Return the picture that begins with these ids.

        Raises:
            DecodeError: It cannot be encoded.
            Interrupted: A cancel ended the encoding.
        """


class RowBatch:
    """A native batch of rows with their positions; the last `n_outputs` rows have outputs."""

    def __init__(self, rows: Rows, positions: NDArray[np.int32], n_outputs: int) -> None:
        n = len(rows)
        flags = np.zeros(n, np.int8)
        flags[n - n_outputs :] = 1
        # The native batch points into these arrays.
        self._kept: tuple[NDArray[Any], ...] = (
            np.ascontiguousarray(rows, np.float32),
            np.ascontiguousarray(positions, np.int32),
            flags,
        )
        self.native = native.llama_batch()
        self.native.n_tokens = n
        fields = dict(self.native._fields_)
        for name, array in zip(("embd", "pos", "logits"), self._kept, strict=True):
            setattr(self.native, name, ctypes.cast(array.ctypes.data, fields[name]))


def native_params(params: ContextParams) -> Any:
    """Build a `llama_context_params`, for this package only."""
    raw = native.llama_context_default_params()
    raw.n_ctx = params.n_ctx
    raw.n_batch = min(params.n_batch, params.n_ctx)
    raw.n_ubatch = raw.n_batch
    raw.n_outputs_max = min(params.n_outputs, raw.n_batch)
    raw.n_seq_max = 1
    raw.n_rs_seq = params.n_snapshots
    raw.n_threads = params.n_threads
    # Until the first prompt: see `Context._set_threads`.
    raw.n_threads_batch = params.n_threads
    raw.flash_attn_type = FLASH_ATTENTION[params.flash_attention]
    raw.type_k = raw.type_v = KV_TYPES[params.kv_type].ggml_type
    raw.swa_full = params.swa_full
    raw.no_perf = True
    return raw
