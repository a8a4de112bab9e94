"""A context: one sequence in a KV cache, batches in, logits rows out."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from app.core.errors import DecodeError, Interrupted, ModelLoadError, UsageError
from app.engine.interfaces import Logits, SavedState
from app.engine.pictures import skipped_positions
from app.engine.types import Threads
from app.llama import library
from app.llama.batch import SEQUENCE, BatchModes, EncodePicture, NativeBatch, native_params
from app.llama.cancel import CancelFlag
from app.llama.library import native
from app.llama.model import Model
from app.llama.native_errors import ABORTED, FAILED, NO_SLOT, decode_error, load_error
from app.llama.sequence import PictureCells, StateCopies
from app.settings.model_params import ContextParams

_PROCESSOR_CHUNK = 128
"""Prompt tokens in a batch on the CPU: as fast as 512 by measurement, with more frequent progress.

There are more than the rows of a draft, so prompts use their own thread count."""
_FIRST_GPU_CHUNK, _FIRST_SHARED_CHUNK = 1, 64
"""Prompt tokens in the first batch on GPUs, and if the CPU computes layers too; see `app.engine.cache.PromptChunks`.

From 32 tokens, GPUs compute the layers of the CPU as well."""

# The binding's own prototype returns a typed pointer, which costs ten times as much as the address.
_logits_address = library.function("llama_get_logits_ith", ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_int32])


class Context:
    """Owns a native context; implements `app.engine.interfaces.TokenModel`.

    It refuses what aborts llama.cpp: it counts positions itself, checks the size of batches, and returns logits only
    for requested rows. It belongs to one thread.

    Args:
        model: Must stay loaded as long as this context.
        cancel: Interrupts a decode on the CPU backend; see `app.llama.batch.BatchModes`.

    Raises:
        ModelLoadError: llama.cpp could not create the context, usually because memory is short.
    """

    def __init__(self, model: Model, params: ContextParams, cancel: CancelFlag | None = None) -> None:
        self.model = model
        self.native_ns = 0
        self.n_past = 0
        self._outputs = (0, 0)
        self._revocable = 0
        self._rows: dict[int, Logits] = {}
        self._window = int(native.llama_model_n_swa(model.handle)) if model.can_rollback else 0
        """Sliding window in tokens, or 0; saved states of a recurrent model contain their own window."""
        self._suppressed = np.array(model.suppressed, dtype=np.intp)
        self._forgets = bool(self._window) and not params.swa_full
        """Whether layers with a sliding window keep only the window and one batch."""
        self.encode_picture: EncodePicture | None = None
        self._cells = PictureCells()
        with ExitStack() as stack:
            self._handle: Any = self._create(params)
            stack.callback(native.llama_free, self._handle)
            # llama.cpp rounds these numbers.
            self.n_ctx = int(native.llama_n_ctx(self._handle))
            self.n_batch = int(native.llama_n_batch(self._handle))
            self._n_snapshots = int(native.llama_n_rs_seq(self._handle))
            self._states = StateCopies(self._handle, has_window=bool(self._window))
            self._memory = native.llama_get_memory(self._handle)
            if not self._memory:
                raise ModelLoadError(
                    f"{model.name} has no KV cache, so it cannot chat.",
                    "It may be an embedding or a diffusion model; choose a chat model.",
                )
            self._batch = NativeBatch(self.n_batch)
            self._modes = BatchModes(self._handle, params, cancel, can_rollback=model.can_rollback)
            self._owned = stack.pop_all()
        model.free_first(self)

    def _native_params(self, params: ContextParams) -> Any:
        """Return the `llama_context_params`; contexts of draft layers extend them."""
        raw = native_params(params)
        # Saved states of a recurrent model need the whole window cache.
        raw.swa_full = params.swa_full or not self.model.can_rollback
        return raw

    def _create(self, params: ContextParams) -> Any:
        raw = self._native_params(params)
        self.n_outputs = raw.n_outputs_max
        library.clear_errors()
        handle = native.llama_init_from_model(self.model.handle, raw)
        if not handle:
            what = f"a context of {params.n_ctx:,} tokens for {self.model.name}"
            fix = "Use a shorter context (⟨model.ctx⟩), or the KV cache type f16 (⟨model.kv_type⟩, ⟨draft.kv_type⟩)."
            raise load_error(what, f"llama.cpp could not create {what}", fix)
        return handle

    # app.engine.interfaces.TokenModel

    @property
    def n_chunk(self) -> int:
        if self.model.on_cpu:
            return min(self.n_batch, _PROCESSOR_CHUNK)
        return min(self.n_batch, _FIRST_GPU_CHUNK if self.model.on_gpu else _FIRST_SHARED_CHUNK)

    @property
    def stops_inside(self) -> bool:
        # Only the CPU backend calls the abort callback.
        return self.model.on_cpu and self._modes.can_interrupt

    @property
    def n_rollback(self) -> int:
        if self._forgets:
            return min(self.n_batch, self.n_ctx - 1)
        return self.n_ctx if self.model.can_rollback else self._n_snapshots

    def decode(self, tokens: Sequence[int], n_outputs: int) -> None:
        """Evaluate a batch; raise UsageError for arguments that llama.cpp would abort on or misread."""
        n = len(tokens)
        if not 0 < n <= self.n_batch:
            raise UsageError(f"A batch has {n} tokens; 1 to {self.n_batch} are possible.")
        if not 0 <= n_outputs <= min(n, self.n_outputs):
            raise UsageError(f"A batch has {n_outputs} outputs; 0 to {min(n, self.n_outputs)} are possible.")
        if self.n_past + n > self.n_ctx:
            raise decode_error(NO_SLOT, self.model.name, self.n_ctx)
        self._open()
        if tokens[0] < 0 and self.encode_picture is not None:
            self._decode_picture(tokens, self.encode_picture, n_outputs)
            return
        self.model.check_tokens(tokens)
        batch = self._batch.filled(self.n_past - self._cells.n_skipped, tokens, n, n_outputs)
        # A remote device computes queued batches only when an output is fetched.
        self._evaluate(native.llama_decode, batch, n, n_outputs, wait=n_outputs > 0)

    def _decode_picture(self, ids: Sequence[int], encode: EncodePicture, n_outputs: int) -> None:
        batch, is_causal = self._cells.next_batch(ids, encode, self.n_past, n_outputs)
        native.llama_set_causal_attn(self._open(), is_causal)
        try:
            self._evaluate(native.llama_decode, batch.native, len(ids), n_outputs, wait=True)
        finally:
            native.llama_set_causal_attn(self._open(), True)
        self._cells.advance(self.n_past)

    def _evaluate(self, function: Any, batch: Any, n: int, n_outputs: int, *, wait: bool) -> None:
        """Run a native batch of `n` tokens and count them, with outputs for the last `n_outputs`."""
        handle = self._open()
        code: int | None = None
        try:
            library.clear_errors()
            started = time.perf_counter_ns()
            self._modes.use(n)
            code = function(handle, batch)
            if wait:
                # A GPU may still be computing; the wait for it belongs to this decode.
                n_errors = library.n_errors()
                native.llama_synchronize(handle)
                if code == 0 and library.n_errors() > n_errors:
                    # Metal reports a failure only here; until then, the logits belong to another batch.
                    code = FAILED
            self.native_ns += time.perf_counter_ns() - started
        finally:
            if code == 0:
                self.n_past += n
                # A recurrent model has the states after each token of the last batch only.
                self._revocable = min(n - 1, self._n_snapshots)
                self._outputs = (n - n_outputs, n)
            else:
                # Recount even after an exception from a signal handler.
                self._recount()
        if code == ABORTED:
            raise Interrupted
        if code != 0:
            raise decode_error(code, self.model.name, self.n_ctx)

    def _recount(self) -> None:
        """Find out which tokens remain after a failed decode."""
        if not self.model.can_rollback:
            # llama.cpp can roll back positions, but not the effect of half a batch on recurrent state.
            if not self.restore_state(self.n_past):
                self.clear()
            return
        if (first := self._cells.unfinished) is not None:
            native.llama_memory_seq_rm(self._memory, SEQUENCE, self._cells.position(first), -1)
            self._set_n_past(first)
            return
        end, n_skipped = self._end_position, self._cells.n_skipped
        # The rows of a picture may share its first position.
        self._set_n_past(max(self.n_past, end + n_skipped) if n_skipped else end)

    def logits(self, row: int) -> Logits:
        """Return a view of an output row of the last decode; the next decode overwrites it.

        Suppressed tokens are masked in it, also for a sampler chain that reads the row later.
        """
        address = _logits_address(self._open(), self.batch_index(row))
        if not address:
            raise DecodeError("llama.cpp has no logits for that row.", "The model may be one that does not chat.")
        view = self._rows.get(address)
        if view is None:
            # llama.cpp reuses one buffer for the rows, so the number of addresses is small.
            view = np.ctypeslib.as_array((ctypes.c_float * self.model.n_vocab).from_address(address))
            self._rows[address] = view
        if self._suppressed.size:
            view[self._suppressed] = -np.inf
        return view

    def truncate(self, n_past: int) -> bool:
        self._open()
        if not 0 <= n_past <= self.n_past:
            raise UsageError(f"A cache of {self.n_past} tokens cannot be cut to {n_past}.")
        if n_past == self.n_past:
            return True
        if not self.model.can_rollback and self.n_past - n_past > self._revocable:
            # Recurrent states return True even for cuts that they cannot make.
            return False
        position = self._cells.position(n_past)
        needed = max(0, position - self._window + 1)
        if self._window and native.llama_memory_seq_pos_min(self._memory, SEQUENCE) > needed:
            # llama.cpp overwrites tokens behind the window: after a restore, and in a sliding-window cache.
            return False
        started = time.perf_counter_ns()
        done = bool(native.llama_memory_seq_rm(self._memory, SEQUENCE, position, -1))
        self.native_ns += time.perf_counter_ns() - started
        if done:
            self._set_n_past(n_past)
        return done

    def clear(self) -> None:
        self._open()
        native.llama_memory_clear(self._memory, True)
        self._set_n_past(0)

    def keep_state(self) -> None:
        self._open()
        if self.n_rollback != self.n_ctx and self.n_past not in self._states.kept:
            started = time.perf_counter_ns()
            self._states.keep(self.n_past)
            self.native_ns += time.perf_counter_ns() - started

    def restore_state(self, n_past: int) -> bool:
        self._open()
        started = time.perf_counter_ns()
        best = self._states.restore_kept(n_past)
        done = best and native.llama_memory_seq_rm(self._memory, SEQUENCE, self._cells.position(best), -1)
        self.native_ns += time.perf_counter_ns() - started
        if done:
            self._set_n_past(best)
        return bool(done)

    def save_sequence(self) -> SavedState | None:
        self._open()
        data = self._states.copy()
        return SavedState(data, tuple(self._states.kept.items())) if data else None

    def restore_sequence(self, state: SavedState, tokens: Sequence[int]) -> bool:
        self.clear()
        done = self._states.restore(state.data)
        self._cells.set_skipped(skipped_positions(tokens))
        missing = len(tokens) - self._cells.n_skipped - self._end_position
        # The rows of a picture at the end may share its first position.
        ends_with_picture = any(end == len(tokens) for end, _ in self._cells.skipped)
        if not done or missing < 0 or (missing and not ends_with_picture):
            self.clear()
            return False
        self._set_n_past(len(tokens))
        self._states.kept = dict(state.snapshots)
        return True

    @property
    def _end_position(self) -> int:
        return int(native.llama_memory_seq_pos_max(self._memory, SEQUENCE)) + 1

    def _set_n_past(self, n_past: int) -> None:
        self.n_past = n_past
        self._outputs, self._revocable = (0, 0), 0
        self._cells.cut(n_past)
        self._states.cut(n_past)

    # Only for this package

    def use_threads(self, threads: Threads) -> None:
        self._open()
        self._modes.use_threads(threads)

    def batch_index(self, row: int) -> int:
        """Return the index of output row `row` in the last batch.

        Raises UsageError if the last decode did not request that row: llama.cpp would abort.
        """
        first, end = self._outputs
        if not 0 <= row < end - first:
            raise UsageError(f"There is no row {row}: the last decode has {end - first} output rows.")
        return first + row

    def sample(self, chain: Any, row: int) -> int:
        """Let a native sampler chain choose from an output row."""
        return int(native.llama_sampler_sample(chain, self._open(), self.batch_index(row)))

    def close(self) -> None:
        """Free the context. A second call does nothing."""
        self._handle = None
        # The rows point into memory that is freed next.
        self._rows.clear()
        self._states.kept.clear()
        self._owned.close()

    def _open(self) -> Any:
        """Return the native pointer. Raises UsageError after `close`."""
        if self._handle is None:
            raise UsageError(f"The context of {self.model.path.name} was closed.")
        return self._handle
