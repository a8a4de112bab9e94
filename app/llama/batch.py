"""Native batches, the settings that change between prompts and short batches, and context parameters."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.engine.interfaces import Rows
from app.engine.types import MAX_DRAFT, Threads
from app.llama.cancel import CancelFlag, strlen_callback
from app.llama.library import native
from app.llama.params import FLASH_ATTENTION
from app.settings.model_params import ContextParams
from app.settings.placement import KV_TYPES

SEQUENCE = 0
"""The only sequence of a context."""
_MROPE_POSITIONS = 4
"""Positions per token in models with M-RoPE."""
_MAX_DRAFT_ROWS = MAX_DRAFT + 1
"""Rows of the longest draft with the token before it; longer batches are prompts."""
_MAX_TOKENS_WRITTEN_SINGLY = 16
"""Fewer tokens are faster to write separately than with NumPy."""


class NativeBatch:
    """Owns the arrays of a native batch of tokens, rows, or both."""

    def __init__(self, size: int, width: int = 0) -> None:
        self.rows: Rows = np.zeros((size, width), np.float32)
        self._tokens = np.zeros(size, np.int32)
        self._positions = np.zeros(_MROPE_POSITIONS * size, np.int32)
        self._flags = np.zeros(size, np.int8)
        self._native = native.llama_batch()
        self._native.pos = _pointer("pos", self._positions)
        self._native.logits = _pointer("logits", self._flags)
        self._token_pointer = _pointer("token", self._tokens)
        self._row_pointer = _pointer("embd", self.rows)

    def filled(self, first: int, tokens: Sequence[int], n: int, n_outputs: int, *, with_rows: bool = False) -> Any:
        """Return a batch of `n` tokens from position `first`, with outputs for the last `n_outputs`."""
        batch, positions, flags = self._native, self._positions, self._flags
        batch.n_tokens = n
        batch.token = self._token_pointer if tokens else None
        batch.embd = self._row_pointer if with_rows else None
        if tokens and n <= _MAX_TOKENS_WRITTEN_SINGLY:
            ids = self._tokens
            for i, token in enumerate(tokens):
                ids[i], positions[i], flags[i] = token, first + i, i >= n - n_outputs
            return batch
        self._tokens[: len(tokens)] = tokens
        # A batch without tokens has a section for each dimension of M-RoPE; the last is unused in text.
        for section in range(1 if tokens else _MROPE_POSITIONS - 1):
            positions[section * n : (section + 1) * n] = np.arange(first, first + n)
        positions[(_MROPE_POSITIONS - 1) * n : _MROPE_POSITIONS * n] = 0
        flags[: n - n_outputs] = 0
        flags[n - n_outputs : n] = 1
        return batch


def _pointer(field: str, array: NDArray[Any]) -> Any:
    return ctypes.cast(array.ctypes.data, dict(native.llama_batch._fields_)[field])


@dataclass(frozen=True, slots=True)
class PictureSlice:
    """Cells of a picture or a slice.

    Attributes:
        n_cells: Rows that a target reads instead of tokens.
        is_causal: Whether a row sees only earlier rows; if not, all rows must be in one batch.
        positions: Positions after the first, shape (n_sections, n_cells): M-RoPE has four sections, others one.
        moves: 1 for each position that depends on the first, else 0; same shape as `positions`.
    """

    n_cells: int
    n_positions: int
    is_causal: bool
    positions: NDArray[np.int32]
    moves: NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class EncodedPicture:
    """A slice with its rows, shape (n_cells, width)."""

    rows: Rows
    cells: PictureSlice

    def batch(self, start: int, n: int, first: int, n_outputs: int) -> RowBatch:
        """Return rows from `start` as a batch, for a picture whose first position is `first`."""
        part, cells = slice(start, start + n), self.cells
        return RowBatch(self.rows[part], cells.positions[:, part] + first * cells.moves[:, part], n_outputs)


EncodePicture = Callable[[Sequence[int]], EncodedPicture]
"""Returns the picture that begins with these ids; see `app.llama.projector.Projector.encoded`."""


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
        for name, array in zip(("embd", "pos", "logits"), self._kept, strict=True):
            setattr(self.native, name, _pointer(name, array))


class BatchModes:
    """Sets the threads and the abort callback of a context for prompts, and for batches as short as a draft.

    An interrupted batch costs a recurrent model all tokens since its last saved state, so such a model interrupts only
    long prompts.

    Args:
        params: CPU threads for short batches, and for prompts.
        cancel: Flag that interrupts a batch on the CPU backend, if any.
        can_rollback: Whether short batches may be interrupted too.
    """

    def __init__(self, handle: Any, params: ContextParams, cancel: CancelFlag | None, *, can_rollback: bool) -> None:
        self._handle = handle
        self._threads = params.threads
        self._cancel = cancel
        self._can_rollback = can_rollback
        self._is_prompt = False
        self._callback = strlen_callback(native.ggml_abort_callback) if cancel is not None else None
        self._set_callback()

    @property
    def can_interrupt(self) -> bool:
        return self._callback is not None

    def use(self, n_tokens: int) -> None:
        """Prepare for a batch."""
        if (is_prompt := n_tokens > _MAX_DRAFT_ROWS) is not self._is_prompt:
            self._is_prompt = is_prompt
            self._set_threads()
            self._set_callback()

    def use_threads(self, threads: Threads) -> None:
        self._threads = threads
        self._set_threads()

    def _set_threads(self) -> None:
        # llama.cpp uses the second number for every batch of two or more rows, including verify batches.
        n = self._threads.generation
        native.llama_set_n_threads(self._handle, n, self._threads.prompt if self._is_prompt else n)

    def _set_callback(self) -> None:
        if self._cancel is not None and self._callback is not None:
            listens = self._is_prompt or self._can_rollback
            callback = self._callback if listens else native.ggml_abort_callback()
            native.llama_set_abort_callback(self._handle, callback, self._cancel.address)


def native_params(params: ContextParams) -> Any:
    """Build a `llama_context_params`, only for this package."""
    raw = native.llama_context_default_params()
    raw.n_ctx = params.n_ctx
    raw.n_batch = min(params.n_batch, params.n_ctx)
    raw.n_ubatch = raw.n_batch
    raw.n_outputs_max = min(params.n_outputs, raw.n_batch)
    raw.n_seq_max = 1
    raw.n_rs_seq = params.n_snapshots
    raw.n_threads = params.threads.generation
    # These hold until the first prompt; see `BatchModes`.
    raw.n_threads_batch = params.threads.generation
    raw.flash_attn_type = FLASH_ATTENTION[params.flash_attention]
    raw.type_k = raw.type_v = KV_TYPES[params.kv_type].ggml_type
    raw.swa_full = params.swa_full
    raw.no_perf = True
    return raw
