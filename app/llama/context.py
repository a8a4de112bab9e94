"""A context: one sequence in a KV cache, batches in, logits rows out."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
import psutil

from app.core.errors import ComputeError, DecodeError, Interrupted, ModelLoadError, UsageError
from app.core.printable import one_line
from app.engine.interfaces import Logits, SavedState
from app.engine.types import MAX_DRAFT
from app.llama import library
from app.llama.cancel import CancelFlag, strlen_callback
from app.llama.kept_state import SEQUENCE, KeptStates
from app.llama.library import native
from app.llama.loading import no_memory, scarce_device
from app.llama.model import Model
from app.llama.params import FLASH_ATTENTION, ContextParams, check_threads
from app.settings.placement import KV_TYPES

_NO_SLOT, _ABORTED, _NO_MEMORY, _FAILED = 1, 2, -2, -3
_REASONS = 8
_STATE_SHARE = 0.5
"""Largest share of the available RAM that a saved sequence may take."""
_NO_BLOCKS = "does not divide"
"""Part of llama.cpp's message about a quantized cache and heads of an unsuitable width."""
_DRAFTED = MAX_DRAFT + 1
"""Rows of the widest draft with the token before it; longer batches are prompts."""
_PROCESSOR_CHUNK = 128
"""Prompt tokens in one batch on the CPU: no slower than larger ones, with more frequent progress.

In chunks of 512 and of 128 tokens, 768 of a model of 1.5 billion weights took two cores 8.7 to 9.1 and 8.9 to 9.3 s
(Q4_0), 9.8 to 10.3 and 9.5 to 10.0 s (Q4_K_M). More than `_DRAFTED`, so that the threads for prompts read it.
"""

# The binding's own prototype returns a typed pointer, which costs ten times what the address does.
_logits_address = native._lib["llama_get_logits_ith"]
_logits_address.argtypes = [ctypes.c_void_p, ctypes.c_int32]
_logits_address.restype = ctypes.c_void_p


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
    # A cache of the window alone can be cut back only about one batch:
    # an edit, a new answer or a comparison would read everything again. `app.models.memory_estimate` counts
    # the whole one.
    raw.swa_full = True
    raw.no_perf = True
    return raw


class Context:
    """Owns one native context and is the only way to it; implements `app.engine.interfaces.TokenModel`.

    Positions are kept here, so they can be neither skipped, repeated nor sent twice; batches are cut to what the
    context takes; logits are only read for rows that were asked for; a second thread is refused, not interleaved.

    Args:
        model: Stays loaded at least as long as this.
        params: Validated by their type.
        cancel: Read by llama.cpp itself in the middle of a decode, on the CPU backend. What a model with a running
            state does for a draft or less is not cut.

    Raises:
        ModelLoadError: llama.cpp could not make the context, most often for want of memory.
    """

    def __init__(self, model: Model, params: ContextParams, cancel: CancelFlag | None = None) -> None:
        self._model = model
        self._lock = threading.Lock()
        self._native_ns = 0
        self._outputs = (0, 0)
        self._failure = ""
        """llama.cpp's message about the first failed batch; later messages only refer to it."""
        self._handle: Any = self._create(params)
        model.adopt(self)
        # Read back: llama.cpp rounds what it is asked for.
        self._n_ctx = int(native.llama_n_ctx(self._handle))
        self._n_batch = int(native.llama_n_batch(self._handle))
        self._memory = native.llama_get_memory(self._handle)
        self._batch = Batch(self._n_batch, self._n_ctx)
        self._row_type = ctypes.c_float * model.n_vocab
        self._rows: dict[int, Logits] = {}
        self._suppressed = np.array(model.suppressed, dtype=np.intp)
        self._n_past = 0
        self._n_snapshots = int(native.llama_n_rs_seq(self._handle))
        self._revocable = 0
        self._kept = KeptStates()
        self._threads = (params.n_threads, params.n_threads_batch)
        self._reads = False
        self._waits = params.waits
        self._cancel = cancel
        self._abort_callback = strlen_callback(native.ggml_abort_callback) if cancel is not None else None
        self._listen(self._handle)
        if not self._memory:
            self.close()
            raise ModelLoadError(
                f"{model.name} keeps nothing in memory between tokens, so it cannot chat.",
                "It may be an embedding or a diffusion model; choose a chat model.",
            )

    def _create(self, params: ContextParams) -> Any:
        raw = native_params(params)
        self._n_outputs = raw.n_outputs_max
        library.clear_errors()
        handle = native.llama_init_from_model(self._model.handle, raw)
        if not handle:
            if (device := scarce_device(library.last_errors(_REASONS))) is not None:
                raise no_memory(device, f"a context of {params.n_ctx:,} tokens for {self._model.name}")
            reason = one_line(library.last_errors()) or "no reason was given"
            if _NO_BLOCKS in reason:
                raise ModelLoadError(
                    f"{self._model.name} can have no KV cache of the type {params.kv_type}: {reason}.",
                    "Take the type f16, with --kv-type for the target and --draft-kv-type for the draft.",
                )
            raise ModelLoadError(
                f"llama.cpp could not make a context of {params.n_ctx:,} tokens for {self._model.name}: {reason}.",
                "Ask for a shorter context (--ctx); the cache of a long one may not fit into memory.",
            )
        return handle

    # app.engine.interfaces.TokenModel

    @property
    def n_ctx(self) -> int:
        return self._n_ctx

    @property
    def n_batch(self) -> int:
        return self._n_batch

    @property
    def n_chunk(self) -> int:
        return min(self._n_batch, _PROCESSOR_CHUNK) if self._model.on_processor else self._n_batch

    @property
    def n_past(self) -> int:
        return self._n_past

    @property
    def n_rollback(self) -> int:
        return self._n_ctx if self._model.can_rollback else self._n_snapshots

    @property
    def native_ns(self) -> int:
        return self._native_ns

    def decode(self, tokens: Sequence[int], n_outputs: int) -> None:
        """Append tokens to the cache; see `TokenModel.decode`.

        Raises:
            UsageError: An argument that llama.cpp would abort on or misread: no tokens, more than `n_batch`,
                an id outside the vocabulary, more outputs than tokens.
            DecodeError: The context is full, or llama.cpp refused the batch.
            ComputeError: It failed while it was computed; the reason is the first one that this context gave.
            Interrupted: The cancel flag was set meanwhile.
        """
        n = len(tokens)
        if not 0 < n <= self._n_batch:
            raise UsageError(f"A batch of {n} tokens was asked for; 1 to {self._n_batch} are possible.")
        if not 0 <= n_outputs <= min(n, self._n_outputs):
            raise UsageError(f"{n_outputs} outputs were asked for; {min(n, self._n_outputs)} are possible.")
        self._model.check_tokens(tokens)
        if self._n_past + n > self._n_ctx:
            self._raise(_NO_SLOT)
        handle = self._acquire()
        code: int | None = None
        try:
            # That a remote device has computed something shows only when some of it is fetched.
            flagged = n_outputs or int(self._waits)
            self._batch.fill(tokens, self._n_past, flagged)
            library.clear_errors()
            started = time.perf_counter_ns()
            if (n > _DRAFTED) is not self._reads:
                self._reads = n > _DRAFTED
                self._set_threads(handle)
                self._listen(handle)
            code = native.llama_decode(handle, self._batch.native)
            if flagged:
                # A GPU is still computing; the wait for it belongs to this decode.
                n_errors = library.n_errors()
                native.llama_synchronize(handle)
                if code == 0 and library.n_errors() > n_errors:
                    # Metal fails only here, and says so nowhere else; the logits are those of another batch.
                    code = _FAILED
            self._native_ns += time.perf_counter_ns() - started
        finally:
            if code == 0:
                self._n_past += n
                # Behind the first token of a batch there is a state of its own; before it there is another batch's.
                self._revocable = min(n - 1, self._n_snapshots)
                self._outputs = (n - n_outputs, n)
                self._failure = ""
            else:
                # Whatever happened, also an exception from a signal handler.
                self._take_stock()
            self._lock.release()
        if code != 0:
            self._raise(code)

    def _take_stock(self) -> None:
        """Find out what a decode has left that did not end well."""
        if not self._model.can_rollback:
            # llama.cpp takes back positions, if these at all, and never what half a batch did to a running state.
            if not self._put_back(self._n_past):
                native.llama_memory_clear(self._memory, True)
                self._hold(0)
            return
        self._hold(int(native.llama_memory_seq_pos_max(self._memory, SEQUENCE)) + 1)

    def logits(self, row: int) -> Logits:
        """Return a view of one output row of the last decode; it is overwritten by the next, and gone after `close`.

        What the model must not write is impossible in it, so also to a sampler chain that reads the row later on.
        """
        handle = self._acquire()
        try:
            index = self.batch_index(row)
            started = time.perf_counter_ns()
            address = _logits_address(handle, index)
            self._native_ns += time.perf_counter_ns() - started
            if not address:
                raise DecodeError("llama.cpp has no logits for that row.", "The model may be one that does not chat.")
            view = self._rows.get(address)
            if view is None:
                # The rows lie in one buffer that llama.cpp keeps, so few addresses ever come up.
                view = np.ctypeslib.as_array(self._row_type.from_address(address))
                self._rows[address] = view
            if self._suppressed.size:
                view[self._suppressed] = -np.inf
            return view
        finally:
            self._lock.release()

    def truncate(self, n_past: int) -> bool:
        """Keep the first `n_past` tokens, if this kind of model can."""
        self._acquire()
        try:
            if not 0 <= n_past <= self._n_past:
                raise UsageError(f"A cache of {self._n_past} tokens cannot be cut to {n_past}.")
            if n_past == self._n_past:
                return True
            if not self._model.can_rollback and self._n_past - n_past > self._revocable:
                # Recurrent states answer True for cuts they cannot make, so they are not asked.
                return False
            started = time.perf_counter_ns()
            done = bool(native.llama_memory_seq_rm(self._memory, SEQUENCE, n_past, -1))
            self._native_ns += time.perf_counter_ns() - started
            if done:
                self._hold(n_past)
            return done
        finally:
            self._lock.release()

    def clear(self) -> None:
        """Forget every token."""
        self._acquire()
        try:
            native.llama_memory_clear(self._memory, True)
            self._hold(0)
        finally:
            self._lock.release()

    def keep_state(self) -> None:
        """Keep the present state, where the cache cannot be cut back to it."""
        handle = self._acquire()
        try:
            if not self._model.can_rollback:
                started = time.perf_counter_ns()
                self._kept.take(handle, self._n_past)
                self._native_ns += time.perf_counter_ns() - started
        finally:
            self._lock.release()

    def restore_state(self, n_past: int) -> bool:
        """Go back to the last state of at most `n_past` tokens that was kept and whose tokens are all still there."""
        self._acquire()
        try:
            return self._put_back(n_past)
        finally:
            self._lock.release()

    def save_sequence(self) -> SavedState | None:
        """Copy the sequence into RAM; see `TokenModel.save_sequence`."""
        handle = self._acquire()
        try:
            size = int(native.llama_state_seq_get_size(handle, SEQUENCE))
            if not 0 < size <= _STATE_SHARE * psutil.virtual_memory().available:
                return None
            try:
                data = bytearray(size)
            except MemoryError:
                return None
            written = native.llama_state_seq_get_data(handle, _as_native(data), size, SEQUENCE)
            return SavedState(self._n_past, data, tuple(self._kept.states)) if written == size else None
        finally:
            self._lock.release()

    def restore_sequence(self, state: SavedState) -> bool:
        """Replace the sequence by a copy that this context made; see `TokenModel.restore_sequence`."""
        handle = self._acquire()
        try:
            native.llama_memory_clear(self._memory, True)
            self._hold(0)
            size = len(state.data)
            read = native.llama_state_seq_set_data(handle, _as_native(state.data), size, SEQUENCE)
            n_past = int(native.llama_memory_seq_pos_max(self._memory, SEQUENCE)) + 1
            if read != size or n_past != state.n_past:
                native.llama_memory_clear(self._memory, True)
                return False
            self._hold(n_past)
            self._kept.states = list(state.snapshots)
            return True
        finally:
            self._lock.release()

    def _put_back(self, n_past: int) -> bool:
        if not (best := self._kept.best(n_past)):
            return False
        started = time.perf_counter_ns()
        done = self._kept.put_back(self._handle, self._memory, best)
        self._native_ns += time.perf_counter_ns() - started
        if not done:
            native.llama_memory_clear(self._memory, True)
        self._hold(best if done else 0)
        return done

    def _hold(self, n_past: int) -> None:
        """So many tokens are left, and no batch to take anything from."""
        self._n_past = n_past
        self._outputs, self._revocable = (0, 0), 0
        self._kept.forget_behind(n_past)

    # For this package

    def use_threads(self, generation: int, prompt: int) -> None:
        """Compute batches as short as a draft, and prompts, with so many threads from now on.

        Raises:
            UsageError: Other numbers than llama.cpp can work with.
        """
        check_threads(generation, prompt)
        handle = self._acquire()
        try:
            self._threads = (generation, prompt)
            self._set_threads(handle)
        finally:
            self._lock.release()

    def _set_threads(self, handle: Any) -> None:
        # llama.cpp takes its second number for every batch of two rows or more, also for a draft that is checked.
        generation, prompt = self._threads
        native.llama_set_n_threads(handle, generation, prompt if self._reads else generation)

    def _listen(self, handle: Any) -> None:
        """Let llama.cpp read the cancel flag inside a decode.

        A batch that is cut costs a running state all that was read since one was kept, which a stop is worth in a long
        prompt only.
        """
        if self._cancel is None or self._abort_callback is None:
            return
        listens = self._reads or self._model.can_rollback
        callback = self._abort_callback if listens else native.ggml_abort_callback()
        native.llama_set_abort_callback(handle, callback, self._cancel.address)

    def batch_index(self, row: int) -> int:
        """The place in the last batch of output row `row`.

        Raises:
            UsageError: The last decode did not ask for that row; llama.cpp would abort on it.
        """
        first, end = self._outputs
        if not 0 <= row < end - first:
            raise UsageError(f"Row {row} was asked for; the last decode has {end - first} output rows.")
        return first + row

    def sample(self, chain: Any, row: int) -> int:
        """Let a native sampler chain choose from an output row."""
        handle = self._acquire()
        try:
            return int(native.llama_sampler_sample(chain, handle, self.batch_index(row)))
        finally:
            self._lock.release()

    @property
    def model(self) -> Model:
        return self._model

    def close(self) -> None:
        """Free the context, after a decode that may still run in another thread. A second call does nothing."""
        with self._lock:
            handle, self._handle = self._handle, None
            if handle:
                # The rows point into what is freed next.
                self._rows.clear()
                self._kept.close()
                self._batch.close()
                native.llama_free(handle)
                self._model.disown(self)

    def _acquire(self) -> Any:
        """Take the lock and give the native pointer; a context manager would cost as much as the call it guards."""
        if not self._lock.acquire(blocking=False):
            raise UsageError("The model is in use by another thread.")
        if self._handle is None:
            self._lock.release()
            raise UsageError(f"The context of {self._model.path.name} was closed.")
        return self._handle

    def _raise(self, code: int) -> NoReturn:
        if code == _ABORTED:
            raise Interrupted
        if code == _NO_SLOT:
            raise DecodeError(f"The context of {self._n_ctx:,} tokens is full.", "Start a new conversation, or --ctx.")
        if code == _FAILED:
            # Metal says first that a batch failed, then why; of every later one only that there was one before it.
            self._failure = self._failure or library.last_errors(2)
        said = self._failure or library.last_errors()
        kind = ComputeError if code == _FAILED else DecodeError
        if code == _NO_MEMORY or scarce_device(f"{said} {library.last_errors(_REASONS)}") is not None:
            raise kind(
                f"Memory ran out while {self._model.name} computed a batch.",
                "End what uses it, or load with a shorter context (--ctx) or a smaller KV cache (--kv-type q8_0).",
            )
        raise kind(
            f"llama.cpp could not evaluate a batch: {one_line(said) or f'code {code}'}.",
            "Try again; if it stays, report it.",
        )


def _as_native(data: bytearray) -> Any:
    """Return the bytes as a C array, without a copy."""
    return (ctypes.c_uint8 * len(data)).from_buffer(data)
