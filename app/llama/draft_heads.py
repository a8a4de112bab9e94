"""Draft layers that read the target's hidden rows: MTP layers, EAGLE-3 heads and DFlash blocks.

The functions come from llama.cpp's staging header `llama-ext.h`. They have C++ linkage, so they are looked up by their
mangled names (Itanium and MSVC). A library that lacks one of them does not support these drafts.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from app.core.errors import DecodeError, ModelLoadError
from app.engine.interfaces import Logits, Rows
from app.engine.probability import most_probable
from app.engine.sources import Source
from app.llama.batch import SEQUENCE, NativeBatch
from app.llama.context import Context
from app.llama.library import function, native
from app.llama.model import Model
from app.models.draft_kinds import LONGEST_BLOCK, HeadFacts
from app.settings.model_params import ContextParams

_MTP_CONTEXT = 1
_HEAD_BATCH = LONGEST_BLOCK
"""Largest batch of an EAGLE-3 head or a block in rows: llama.cpp reserves logits for each row."""
_OUTPUT_ROWS_ONLY = frozenset({"mimo2", "qwen3next", "step35"})
"""Architectures whose MTP layer computes hidden rows only for outputs; the others compute a row for every token."""
_POINTER, _BOOL, _INT, _UINT = ctypes.c_void_p, ctypes.c_bool, ctypes.c_int32, ctypes.c_uint32
_FUNCTION_PROTOTYPES: dict[str, tuple[str, str, str, Any, list[Any]]] = {
    "set_nextn": ("llama_set_embeddings_nextn", "bb", "_N1", None, [_POINTER, _BOOL, _BOOL]),
    "nextn": ("llama_get_embeddings_nextn", "", "", _POINTER, [_POINTER]),
    "nextn_row": ("llama_get_embeddings_nextn_ith", "i", "H", _POINTER, [_POINTER, _INT]),
    "set_head": ("llama_set_nextn_layer_offset", "i", "H", None, [_POINTER, _INT]),
    "set_layer_input": ("llama_set_embeddings_layer_inp", "jb", "I_N", None, [_POINTER, _UINT, _BOOL]),
    "layer_input": ("llama_get_embeddings_layer_inp", "j", "I", _POINTER, [_POINTER, _UINT]),
}
"""Names, codes of the arguments after the context in both manglings, result types and argument types; a result is an
array of floats."""


def symbol(name: str) -> Any:
    """Return a function of the staging header.

    Raises:
        ModelLoadError: This library does not export it.
    """
    plain, itanium, msvc, result, arguments = _FUNCTION_PROTOTYPES[name]
    for mangled in (
        f"_Z{len(plain)}{plain}P13llama_context{itanium}",
        f"?{plain}@@YA{'X' if result is None else 'PEAM'}PEAUllama_context@@{msvc}@Z",
    ):
        try:
            return function(mangled, result, arguments)
        except AttributeError:
            continue
    raise ModelLoadError(f"This llama.cpp has no function {plain}, so it cannot use this kind of draft.")


def other_context(raw: Any, handle: Any, *, is_mtp: bool) -> Any:
    """Return context parameters changed for draft layers of the target whose context is `handle`."""
    raw.ctx_other = handle
    if is_mtp:
        raw.ctx_type = _MTP_CONTEXT
    return raw


class HeadContext(Context):
    """Owns the context of draft layers; implements `app.engine.interfaces.HeadModel`.

    Args:
        model: Model with the layers; the target itself for MTP layers in its file.
        facts: Facts of these layers; `MTP_IN_TARGET` in the target's file.
        target: The target's context, which is set to output its hidden rows.

    Raises:
        ModelLoadError: llama.cpp could not create the context, or lacks a function for it.
    """

    def __init__(self, model: Model, facts: HeadFacts, target: Context, params: ContextParams) -> None:
        self._facts = facts
        self._target = target
        self._last = 0
        """Position of the last token of the text, for layers that share the target's KV cache."""
        kind = facts.kind
        self.row_shift, self.at_once = (0, True) if kind.is_block else (1, False)
        self.longest = facts.longest
        self._block: Rows = np.empty((0, 0), np.float32)
        """A row for each drafted token of a DFlash2 or DSpark block: the candidates and their scores after each
        candidate of the previous token, or the confidence."""
        self._candidate = 0
        """Index of the last drafted candidate."""
        self._functions = {name: symbol(name) for name in _FUNCTION_PROTOTYPES}
        super().__init__(model, params)
        self._offset = int(kind is Source.EAGLE3)
        """An EAGLE-3 head takes token i and row i - 1 at position i - 1."""
        # Rows of MTP layers, and rows of heads for their next token, have the width of the output.
        self._width = width = int(native.llama_model_n_embd_out(model.handle))
        size = native.llama_model_n_embd_out if kind is Source.MTP else native.llama_model_n_embd
        self._row_width = int(size(target.model.handle)) * max(1, len(facts.target_layers))
        self._head_batch = NativeBatch(self.n_batch, self._row_width if kind.is_block else width)
        self._features = NativeBatch(_HEAD_BATCH, self._row_width) if kind is Source.EAGLE3 else None
        for layer in facts.target_layers:
            self._functions["set_layer_input"](target._open(), layer, True)
        masked = model.header.architecture in _OUTPUT_ROWS_ONLY if kind is Source.MTP else not facts.n_candidates
        self._functions["set_nextn"](self._handle, True, masked)
        if kind.is_block:
            native.llama_set_causal_attn(self._handle, facts.is_causal)

    def _native_params(self, params: ContextParams) -> Any:
        raw = other_context(super()._native_params(params), self._target._open(), is_mtp=self._facts.kind is Source.MTP)
        if self._facts.kind is not Source.MTP:
            raw.n_batch = raw.n_ubatch = raw.n_outputs_max = min(_HEAD_BATCH, params.n_ctx)
        return raw

    # app.engine.interfaces.HeadModel

    def compute_rows(self, is_on: bool) -> None:
        # With these rows the target computes its last layer for every token instead of only the outputs.
        if self._facts.kind is Source.MTP:
            self._functions["set_nextn"](self._target._open(), is_on, False)

    def hidden_rows(self, n: int) -> Rows:
        handle = self._target._open()
        started = time.perf_counter_ns()
        if layers := self._facts.target_layers:
            addresses = [self._functions["layer_input"](handle, layer) for layer in layers]
        else:
            addresses = [self._functions["nextn"](handle)]
        # A GPU may still be computing the target's batch; the wait for it belongs to the target.
        self._target.native_ns += time.perf_counter_ns() - started
        parts = [self._rows_at(address, n, self._row_width // len(addresses)) for address in addresses]
        return np.concatenate(parts, axis=1) if len(parts) > 1 else parts[0]

    def read(self, start: int, tokens: Sequence[int], rows: Rows, n_outputs: int) -> None:
        if self._facts.shares_memory:
            if n_outputs:
                self._last = start + len(tokens) - 1
                self._head_batch.rows[0] = rows[-1]
                self._submit(self._last, tokens[-1:], 1, 1)
            return
        if min(tokens) < 0:
            # The hidden rows contain the picture, but each needs a token beside it.
            tokens = [max(0, token) for token in tokens]
        if start < self._offset:
            # The first token has no row before it.
            tokens, rows, start = tokens[self._offset - start :], rows[self._offset - start :], self._offset
        if self._features is not None and len(tokens):
            rows = self._fused(rows)
        for first in range(0, len(tokens), self.n_batch):
            part = tokens[first : first + self.n_batch]
            self._head_batch.rows[: len(part)] = rows[first : first + len(part)]
            outputs = n_outputs if first + len(part) == len(tokens) else 0
            self._submit(start + first, () if self.at_once else part, len(part), outputs)

    def draft_next(self, position: int, token: int) -> None:
        self._copy_row()
        # Layers that share the target's KV cache evaluate each drafted token at the last position.
        self._submit(self._last if self._facts.shares_memory else position, (token,), 1, 1)

    def _copy_row(self) -> None:
        address = self._functions["nextn_row"](self._open(), self.batch_index(0))
        if not address:
            raise DecodeError("llama.cpp has no hidden row for a drafted token.")
        row = self._head_batch.rows[0]
        ctypes.memmove(row.ctypes.data, address, row.nbytes)

    def block(self, position: int, token: int, n: int) -> None:
        facts = self._facts
        n += facts.first_drafted
        n_outputs = 0 if facts.n_candidates else n
        self._submit(position, (token, *[facts.mask_token] * (n - 1)), n, n_outputs, with_rows=False)
        if facts.n_candidates or facts.has_confidence:
            rows = self._rows_at(self._functions["nextn"](self._open()), n, self._width)
            self._block, self._candidate = rows[facts.first_drafted :], 0

    def drafted(self, i: int) -> tuple[int, float]:
        if k := self._facts.n_candidates:
            candidates, *scores = self._block[i, : k * (k + 1)].reshape(k + 1, k)
            self._candidate, probability = most_probable(scores[self._candidate])
            return int(candidates[self._candidate]), probability
        logits = self.logits(i + self._facts.first_drafted)
        if self._facts.has_confidence:
            # This output was trained to predict the acceptance.
            return int(logits.argmax()), float(np.nan_to_num(self._block[i, 0]))
        return most_probable(logits)

    @property
    def first_logits(self) -> Logits | None:
        return None if self._facts.n_candidates else self.logits(self._facts.first_drafted)

    def rollback(self, position: int) -> None:
        n_past = max(0, position - self._offset)
        if n_past >= self.n_past or self._facts.shares_memory:
            return
        if not native.llama_memory_seq_rm(self._memory, SEQUENCE, n_past, -1):
            self.clear()
            raise DecodeError("The KV cache of the draft layers could not be rolled back.")
        self._set_n_past(n_past)

    def clear(self) -> None:
        # Clearing a shared KV cache would empty the target's.
        if not self._facts.shares_memory:
            super().clear()

    def _submit(self, position: int, tokens: Sequence[int], n: int, n_outputs: int, *, with_rows: bool = True) -> None:
        """Evaluate `n` tokens from a target position; if `tokens` is empty, the rows alone are the input."""
        self.model.check_tokens(tokens)
        first = position - self._offset
        if first + n > self.n_ctx:
            raise DecodeError("The KV cache of the draft layers is full.")
        # An EAGLE-3 head computes logits for every token, and llama.cpp mistakes the first rows for the outputs.
        n_flagged = n if n_outputs and self._features is not None else n_outputs
        batch = self._head_batch.filled(first, tokens, n, n_flagged, with_rows=with_rows)
        self.n_past = first
        self._evaluate(native.llama_decode, batch, n, n_outputs, wait=n_outputs > 0 or not with_rows)

    def _fused(self, rows: Rows) -> Rows:
        """Fuse rows of several target layers, shape (n, layers * width), into rows of an EAGLE-3 head."""
        assert self._features is not None
        fused, n_past = [], self.n_past
        for done in range(0, len(rows), _HEAD_BATCH):
            n = len(rows[done : done + _HEAD_BATCH])
            self._features.rows[:n] = rows[done : done + n]
            self._evaluate(
                native.llama_encode, self._features.filled(n_past, (), n, n, with_rows=True), n, n, wait=True
            )
            self.n_past = n_past
            fused.append(self._rows_at(self._functions["nextn"](self._open()), n, self._head_batch.rows.shape[1]))
        return np.concatenate(fused)

    def close(self) -> None:
        """Free the context. A second call does nothing."""
        if self._handle is not None and self._target._handle is not None:
            self.compute_rows(False)
            for layer in self._facts.target_layers:
                self._functions["set_layer_input"](self._target._handle, layer, False)
        super().close()

    @staticmethod
    def _rows_at(address: int | None, n: int, width: int) -> Rows:
        if not address:
            raise DecodeError("llama.cpp has no hidden rows of the last batch.")
        rows: Rows = np.ctypeslib.as_array((ctypes.c_float * (n * width)).from_address(address))
        return rows.reshape(n, width).copy()

    def _recount(self) -> None:
        # After a failed batch the drafter starts over.
        self.clear()
