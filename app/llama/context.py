"""A context: one sequence in a KV cache, batches in, logits rows out."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, NoReturn

import numpy as np
import psutil

from app.core.errors import ComputeError, DecodeError, Interrupted, ModelLoadError, UsageError
from app.core.printable import one_line
from app.engine.interfaces import Logits, SavedState
from app.engine.pictures import begins_picture
from app.engine.types import MAX_DRAFT
from app.llama import library
from app.llama.batch import SEQUENCE, EncodedPicture, NativeBatch, PictureEncoder, native_params
from app.llama.cancel import CancelFlag, strlen_callback
from app.llama.library import native
from app.llama.loading import no_memory, scarce_device
from app.llama.model import Model
from app.llama.params import ContextParams
from app.models.memory_estimate import n_saved_states

_NO_SLOT, _ABORTED, _NO_MEMORY, _FAILED = 1, 2, -2, -3
_MAX_LOG_LINES = 8
_PARTIAL_ONLY: int = native.LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY
_STATE_SHARE = 0.5
"""Largest share of the available RAM that a saved sequence may take."""
_MAX_DRAFT_ROWS = MAX_DRAFT + 1
"""Rows of the widest draft with the token before it; longer batches are prompts."""
_PROCESSOR_CHUNK = 128
"""Prompt tokens in one batch on the CPU: as fast as 512 by measurement, with more frequent progress.

More than `_MAX_DRAFT_ROWS`, so that they are read with the threads for prompts.
"""
_FIRST_CHUNK = 64
"""Prompt tokens in the first batch on other devices, whose speed is unknown; see `app.engine.cache.PromptChunks`."""

# The binding's own prototype returns a typed pointer, which costs ten times what the address does.
_logits_address = library.function("llama_get_logits_ith", ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_int32])


class Context:
    """Own one native context; implements `app.engine.interfaces.TokenModel`.

    It refuses what aborts llama.cpp: it counts positions itself, checks the size of batches, and returns logits only
    for rows that were requested. It belongs to one thread.

    Args:
        model: Stays loaded at least as long as this.
        params: Sizes, threads and types of the cache.
        cancel: Interrupts a decode on the CPU backend; see `_set_abort_callback`.

    Attributes:
        pictures: Encoder of pictures; None without one.

    Raises:
        ModelLoadError: llama.cpp could not make the context, usually because memory is short.
    """

    def __init__(self, model: Model, params: ContextParams, cancel: CancelFlag | None = None) -> None:
        self.model = model
        self.native_ns = 0
        self.n_past = 0
        self._outputs = (0, 0)
        self._revocable = 0
        self._rows: dict[int, Logits] = {}
        self._row_type = ctypes.c_float * model.n_vocab
        self._window = int(native.llama_model_n_swa(model.handle)) if model.can_rollback else 0
        """Sliding window in tokens, 0 for none; kept states of a recurrent model contain their own window."""
        self._suppressed = np.array(model.suppressed, dtype=np.intp)
        self._forgets = bool(self._window) and not params.swa_full
        """Layers with a sliding window keep only that and one batch."""
        self._kept: dict[int, Any] = {}
        """Copies of a recurrent state, or of the sliding window, by number of tokens, fewest first; valid while the
        cache holds these tokens."""
        self._threads = (params.n_threads, params.n_threads_batch)
        self._is_prompt = False
        self.pictures: PictureEncoder | None = None
        self._picture: tuple[int, EncodedPicture] | None = None
        """A picture of which a part was evaluated, and the cells before it."""
        self._skipped: list[tuple[int, int]] = []
        """See `SavedState.skipped`."""
        self._n_skipped = 0
        """Sum of the cells without a position; positions after them are as much smaller."""
        self._cancel = cancel
        self._abort_callback = strlen_callback(native.ggml_abort_callback) if cancel is not None else None
        with ExitStack() as stack:
            self._handle: Any = self._create(params)
            stack.callback(native.llama_free, self._handle)
            # llama.cpp rounds these numbers.
            self.n_ctx = int(native.llama_n_ctx(self._handle))
            self.n_batch = int(native.llama_n_batch(self._handle))
            self._n_snapshots = int(native.llama_n_rs_seq(self._handle))
            self._memory = native.llama_get_memory(self._handle)
            if not self._memory:
                raise ModelLoadError(
                    f"{model.name} has no KV cache, so it cannot chat.",
                    "It may be an embedding or a diffusion model; choose a chat model.",
                )
            self._batch = NativeBatch(self.n_batch)
            stack.callback(self._batch.close)
            self._set_abort_callback(self._handle)
            self._owned = stack.pop_all()
        model.free_first(self)

    def _native_params(self, params: ContextParams) -> Any:
        """Return the `llama_context_params`; contexts of draft layers add to them."""
        raw = native_params(params)
        # Kept states of a recurrent model need the whole window cache.
        raw.swa_full = params.swa_full or not self.model.can_rollback
        return raw

    def _create(self, params: ContextParams) -> Any:
        raw = self._native_params(params)
        self._n_outputs = raw.n_outputs_max
        library.clear_errors()
        handle = native.llama_init_from_model(self.model.handle, raw)
        if not handle:
            if (device := scarce_device(library.last_errors(_MAX_LOG_LINES))) is not None:
                raise no_memory(device, f"a context of {params.n_ctx:,} tokens for {self.model.name}")
            reason = one_line(library.last_errors()) or "no reason was given"
            raise ModelLoadError(
                f"llama.cpp could not make a context of {params.n_ctx:,} tokens for {self.model.name}: {reason}.",
                "Use a shorter context (⟨model.ctx⟩), or the KV cache type f16 (⟨model.kv_type⟩, ⟨draft.kv_type⟩).",
            )
        return handle

    # app.engine.interfaces.TokenModel

    @property
    def n_chunk(self) -> int:
        return min(self.n_batch, _PROCESSOR_CHUNK if self.model.on_cpu else _FIRST_CHUNK)

    @property
    def stops_inside(self) -> bool:
        # Only the CPU backend calls the abort callback.
        return self.model.on_cpu and self._abort_callback is not None

    @property
    def n_rollback(self) -> int:
        if self._forgets:
            return min(self.n_batch, self.n_ctx - 1)
        return self.n_ctx if self.model.can_rollback else self._n_snapshots

    def decode(self, tokens: Sequence[int], n_outputs: int) -> None:
        """Append tokens, or a part of a picture, to the cache; see `TokenModel.decode`.

        Raises:
            UsageError: An argument that llama.cpp would abort on or misread: no tokens, more than `n_batch`,
                an id outside the vocabulary, more outputs than tokens.
            DecodeError: The context is full, or llama.cpp refused the batch.
            ComputeError: It failed while it was computed.
            Interrupted: The cancel flag was set meanwhile.
        """
        n = len(tokens)
        if not 0 < n <= self.n_batch:
            raise UsageError(f"A batch has {n} tokens; 1 to {self.n_batch} are possible.")
        if not 0 <= n_outputs <= min(n, self._n_outputs):
            raise UsageError(f"A batch has {n_outputs} outputs; 0 to {min(n, self._n_outputs)} are possible.")
        if self.n_past + n > self.n_ctx:
            self._raise(_NO_SLOT)
        self._open()
        if tokens[0] < 0 and self.pictures is not None:
            self._decode_picture(tokens, self.pictures, n_outputs)
            return
        self.model.check_tokens(tokens)
        self._batch.fill(tokens, self.n_past - self._n_skipped, n_outputs)
        # A remote device computes queued batches until an output is fetched.
        self._evaluate(native.llama_decode, self._batch.native, n, n_outputs, wait=n_outputs > 0)

    def _decode_picture(self, ids: Sequence[int], pictures: PictureEncoder, n_outputs: int) -> None:
        """Append the next rows of a picture; encode it first where it begins."""
        if begins_picture(ids[0]):
            self._picture = self.n_past, pictures.encoded(ids)
        if self._picture is None:
            raise UsageError("A batch begins inside a picture.")
        first, picture = self._picture
        done, n, n_cells = self.n_past - first, len(ids), len(picture.rows)
        if done + n > n_cells or not (picture.is_causal or n == n_cells):
            raise UsageError(f"A batch has {n} rows of a picture of {n_cells}.")
        batch = picture.batch(done, n, first - self._n_skipped, n_outputs)
        native.llama_set_causal_attn(self._open(), picture.is_causal)
        try:
            self._evaluate(native.llama_decode, batch.native, n, n_outputs, wait=True)
        finally:
            native.llama_set_causal_attn(self._open(), True)
        if done + n == n_cells:
            self._picture = None
            if (n_skipped := n_cells - picture.n_positions) > 0:
                self._skipped.append((self.n_past, n_skipped))
                self._n_skipped += n_skipped

    def _position(self, n_past: int) -> int:
        """Return the position after the first `n_past` cells."""
        return n_past - sum(n for end, n in self._skipped if end <= n_past) if self._skipped else n_past

    def _evaluate(self, function: Any, batch: Any, n: int, n_outputs: int, *, wait: bool) -> None:
        """Run a native batch of `n` tokens and count them, with outputs for the last `n_outputs`."""
        handle = self._open()
        code: int | None = None
        try:
            library.clear_errors()
            started = time.perf_counter_ns()
            if (n > _MAX_DRAFT_ROWS) is not self._is_prompt:
                self._is_prompt = n > _MAX_DRAFT_ROWS
                self._set_threads(handle)
                self._set_abort_callback(handle)
            code = function(handle, batch)
            if wait:
                # A GPU is still computing; the wait for it belongs to this decode.
                n_errors = library.n_errors()
                native.llama_synchronize(handle)
                if code == 0 and library.n_errors() > n_errors:
                    # Metal reports a failure only here; the logits are those of another batch.
                    code = _FAILED
            self.native_ns += time.perf_counter_ns() - started
        finally:
            if code == 0:
                self.n_past += n
                # A recurrent model keeps the states after each token of the last batch only.
                self._revocable = min(n - 1, self._n_snapshots)
                self._outputs = (n - n_outputs, n)
            else:
                # Whatever happened, also an exception from a signal handler.
                self._recount()
        if code != 0:
            self._raise(code)

    def _recount(self) -> None:
        """Find out which tokens a failed decode has left."""
        if not self.model.can_rollback:
            # llama.cpp rolls back positions at most, never what half a batch did to recurrent state.
            if not self.restore_state(self.n_past):
                self.clear()
            return
        if self._picture is not None:
            first, _ = self._picture
            native.llama_memory_seq_rm(self._memory, SEQUENCE, self._position(first), -1)
            self._set_n_past(first)
            return
        end = int(native.llama_memory_seq_pos_max(self._memory, SEQUENCE)) + 1
        # The rows of a picture may share its first position.
        self._set_n_past(max(self.n_past, end + self._n_skipped) if self._n_skipped else end)

    def logits(self, row: int) -> Logits:
        """Return a view of one output row of the last decode; the next decode overwrites it.

        Suppressed tokens are impossible in it, so also for a sampler chain that reads the row later.
        """
        address = _logits_address(self._open(), self.batch_index(row))
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

    def truncate(self, n_past: int) -> bool:
        """Keep the first `n_past` tokens, if this kind of model can."""
        self._open()
        if not 0 <= n_past <= self.n_past:
            raise UsageError(f"A cache of {self.n_past} tokens cannot be cut to {n_past}.")
        if n_past == self.n_past:
            return True
        if not self.model.can_rollback and self.n_past - n_past > self._revocable:
            # Recurrent states answer True for cuts they cannot make, so they are not asked.
            return False
        position = self._position(n_past)
        needed = max(0, position - self._window + 1)
        if self._window and native.llama_memory_seq_pos_min(self._memory, SEQUENCE) > needed:
            # llama.cpp writes new tokens over those that the window has left behind: after a restore, and in a cache
            # of the window alone.
            return False
        started = time.perf_counter_ns()
        done = bool(native.llama_memory_seq_rm(self._memory, SEQUENCE, position, -1))
        self.native_ns += time.perf_counter_ns() - started
        if done:
            self._set_n_past(n_past)
        return done

    def clear(self) -> None:
        """Forget every token."""
        self._open()
        native.llama_memory_clear(self._memory, True)
        self._set_n_past(0)

    def keep_state(self) -> None:
        """Keep the present state, if the cache cannot be rolled back to it."""
        handle = self._open()
        if self.n_rollback == self.n_ctx or self.n_past in self._kept:
            return
        started = time.perf_counter_ns()
        if size := int(native.llama_state_seq_get_size_ext(handle, SEQUENCE, _PARTIAL_ONLY)):
            if len(self._kept) >= n_saved_states(size):
                del self._kept[min(self._kept)]
            data = bytearray(size)
            if _is_whole(native.llama_state_seq_get_data_ext, handle, data, SEQUENCE, _PARTIAL_ONLY):
                self._kept[self.n_past] = data
        self.native_ns += time.perf_counter_ns() - started

    def restore_state(self, n_past: int) -> bool:
        """Go back to the last kept state of at most `n_past` tokens."""
        handle = self._open()
        if not (best := max((n for n in self._kept if n <= n_past), default=0)):
            return False
        started = time.perf_counter_ns()
        done = _is_whole(native.llama_state_seq_set_data_ext, handle, self._kept[best], SEQUENCE, _PARTIAL_ONLY)
        done = done and bool(native.llama_memory_seq_rm(self._memory, SEQUENCE, self._position(best), -1))
        self.native_ns += time.perf_counter_ns() - started
        if done:
            self._set_n_past(best)
        else:
            self.clear()
        return done

    def save_sequence(self) -> SavedState | None:
        """Copy the sequence into RAM; see `TokenModel.save_sequence`."""
        get_size, get_data, _, sequence = self._state_functions()
        handle = self._open()
        size = int(get_size(handle, *sequence))
        if not 0 < size <= _STATE_SHARE * psutil.virtual_memory().available:
            return None
        data = bytearray(size)
        done = _is_whole(get_data, handle, data, *sequence)
        return SavedState(self.n_past, data, tuple(self._kept.items()), tuple(self._skipped)) if done else None

    def restore_sequence(self, state: SavedState) -> bool:
        """Replace the sequence by a copy that this context made; see `TokenModel.restore_sequence`."""
        self.clear()
        _, _, set_data, sequence = self._state_functions()
        done = _is_whole(set_data, self._open(), state.data, *sequence)
        self._skipped, self._n_skipped = list(state.skipped), sum(n for _, n in state.skipped)
        end = int(native.llama_memory_seq_pos_max(self._memory, SEQUENCE)) + 1
        missing = state.n_past - self._n_skipped - end
        # The rows of a picture at the end may share its first position.
        ends_with_picture = any(end == state.n_past for end, _ in state.skipped)
        if not done or missing < 0 or (missing and not ends_with_picture):
            self.clear()
            return False
        self._set_n_past(state.n_past)
        self._kept = dict(state.snapshots)
        return True

    def _state_functions(self) -> tuple[Any, Any, Any, tuple[int, ...]]:
        """Return llama.cpp's functions for size, get and set of the sequence's state, and their last argument.

        The state of a sequence leaves out what lies before a sliding window, so it could not be cut after a restore.
        The state of the whole context has everything.
        """
        if self._window:
            return native.llama_state_get_size, native.llama_state_get_data, native.llama_state_set_data, ()
        names = (native.llama_state_seq_get_size, native.llama_state_seq_get_data, native.llama_state_seq_set_data)
        return *names, (SEQUENCE,)

    def _set_n_past(self, n_past: int) -> None:
        """Record that `n_past` tokens are left, without output rows."""
        self.n_past = n_past
        self._outputs, self._revocable = (0, 0), 0
        if self._skipped:
            self._skipped = [(end, n) for end, n in self._skipped if end <= n_past]
            self._n_skipped = sum(n for _, n in self._skipped)
        self._picture = None
        self._kept = {n: data for n, data in self._kept.items() if n <= n_past}

    # For this package

    def use_threads(self, generation: int, prompt: int) -> None:
        """Set the threads for batches as short as a draft, and for prompts."""
        self._threads = (generation, prompt)
        self._set_threads(self._open())

    def _set_threads(self, handle: Any) -> None:
        # llama.cpp takes its second number for every batch of two rows or more, also for a verify batch.
        generation, prompt = self._threads
        native.llama_set_n_threads(handle, generation, prompt if self._is_prompt else generation)

    def _set_abort_callback(self, handle: Any) -> None:
        """Let llama.cpp read the cancel flag inside a decode.

        An interrupted batch costs a recurrent model all tokens since its last kept state, so only long prompts are
        interrupted there.
        """
        if self._cancel is None or self._abort_callback is None:
            return
        listens = self._is_prompt or self.model.can_rollback
        callback = self._abort_callback if listens else native.ggml_abort_callback()
        native.llama_set_abort_callback(handle, callback, self._cancel.address)

    def warm_up(self) -> None:
        """Compute the largest batch and a single token: backends allocate memory when they first need it."""
        for n in (min(self.n_batch, self.n_ctx), 1):
            self.decode([0] * n, min(n, self._n_outputs))
            self.clear()
        self.native_ns = 0

    def batch_index(self, row: int) -> int:
        """Return the index of output row `row` in the last batch.

        Raises UsageError if the last decode did not ask for that row: llama.cpp would abort on it.
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
        # The rows point into what is freed next.
        self._rows.clear()
        self._kept.clear()
        self._owned.close()

    def _open(self) -> Any:
        """Return the native pointer. Raises UsageError once the context was closed."""
        if self._handle is None:
            raise UsageError(f"The context of {self.model.path.name} was closed.")
        return self._handle

    def _raise(self, code: int) -> NoReturn:
        if code == _ABORTED:
            raise Interrupted
        if code == _NO_SLOT:
            fix = "Start a new conversation, or use a longer context (⟨model.ctx⟩)."
            raise DecodeError(f"The context of {self.n_ctx:,} tokens is full.", fix)
        # Metal logs first that a batch failed, then why.
        log_text = library.last_errors(2 if code == _FAILED else 1)
        kind = ComputeError if code == _FAILED else DecodeError
        if code == _NO_MEMORY or scarce_device(f"{log_text} {library.last_errors(_MAX_LOG_LINES)}") is not None:
            raise kind(
                f"Memory ran out while {self.model.name} computed a batch.",
                "Close other programs, or use a shorter context (⟨model.ctx⟩) or a smaller KV cache "
                "(⟨model.kv_type=q8_0⟩).",
            )
        raise kind(
            f"llama.cpp could not evaluate a batch: {one_line(log_text) or f'code {code}'}.",
            "Try again; if it happens again, report it.",
        )


def _is_whole(move: Any, handle: Any, data: bytearray | memoryview, *arguments: int) -> bool:
    """Copy a state from or to a context; return whether llama.cpp took as many bytes as there are."""
    size = len(data)
    return bool(move(handle, (ctypes.c_uint8 * size).from_buffer(data), size, *arguments) == size)
