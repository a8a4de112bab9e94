"""Earlier states of a recurrent model, which cannot be rolled back to them."""

from __future__ import annotations

import ctypes
from typing import Any

from app.llama.library import native
from app.models.memory_estimate import n_saved_states

SEQUENCE = 0
"""The only sequence of a context."""


class KeptStates:
    """Copies of a context's recurrent state; the attention cache stays where it is.

    So a copy is valid as long as the context still holds all of its tokens.

    Attributes:
        states: Each copy with its number of tokens, fewest first.
    """

    def __init__(self) -> None:
        self.states: list[tuple[int, Any]] = []

    def take(self, handle: Any, n_past: int) -> None:
        """Copy the state of a context that holds so many tokens; forget the oldest copy if there are too many."""
        if self.best(n_past) == n_past:
            return
        size = int(native.llama_state_seq_get_size_ext(handle, SEQUENCE, native.LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY))
        if not size:
            return
        if len(self.states) >= n_saved_states(size):
            del self.states[0]
        try:
            data = (ctypes.c_ubyte * size)()
        except MemoryError:
            return
        if _move(native.llama_state_seq_get_data_ext, handle, data):
            self.states.append((n_past, data))

    def best(self, n_past: int) -> int:
        """Return the number of tokens of the last copy with at most `n_past`; 0 for none."""
        return max((n for n, _ in self.states if n <= n_past), default=0)

    def put_back(self, handle: Any, memory: Any, n_past: int) -> bool:
        """Restore a copy; the context is unusable until it is cleared if that fails."""
        data = next(data for n, data in self.states if n == n_past)
        moved = _move(native.llama_state_seq_set_data_ext, handle, data)
        return moved and bool(native.llama_memory_seq_rm(memory, SEQUENCE, n_past, -1))

    def forget_behind(self, n_past: int) -> None:
        """Forget copies with more tokens."""
        self.states = [(n, data) for n, data in self.states if n <= n_past]


def _move(function: Any, handle: Any, data: Any) -> bool:
    size = len(data)
    return bool(function(handle, data, size, SEQUENCE, native.LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY) == size)
