"""Earlier states of a model that cannot be cut back to them: copied, and put back."""

from __future__ import annotations

import ctypes
from typing import Any

from app.llama.library import native
from app.models.memory_estimate import n_saved_states

SEQUENCE = 0
"""The only sequence of a context."""
_LATEST = 2
"""States that make no room for others: another answer goes back to the last one, an edit of its prompt to that before
it."""


class KeptStates:
    """States of a context: what llama.cpp calls partial, so what attention holds of every token is not in them.

    That stays where it is. So a state is good as long as the context still holds all tokens that it is of.

    Attributes:
        states: Each copy with its number of tokens, fewest first.
    """

    def __init__(self) -> None:
        self.states: list[tuple[int, Any]] = []

    def take(self, handle: Any, n_past: int) -> None:
        """Copy the state of a context that holds so many tokens; where there are many, one makes room for it."""
        if self.best(n_past) == n_past:
            return
        size = int(native.llama_state_seq_get_size_ext(handle, SEQUENCE, native.LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY))
        if not size:
            return
        if len(self.states) >= n_saved_states(size):
            self._make_room(n_past)
        try:
            data = (ctypes.c_ubyte * size)()
        except MemoryError:
            return
        if _move(native.llama_state_seq_get_data_ext, handle, data):
            self.states.append((n_past, data))

    def _make_room(self, n_past: int) -> None:
        """Forget the state that is missed least once there is one of `n_past` tokens."""
        ends = [0, *(n for n, _ in self.states), n_past]
        # Without it, going back to just before the next state reads on from the one before.
        spare = range(1, len(ends) - _LATEST)
        del self.states[min(spare, key=lambda i: ends[i + 1] - ends[i - 1]) - 1]

    def best(self, n_past: int) -> int:
        """The tokens that the last state of at most `n_past` is of; 0 for none."""
        return max((n for n, _ in self.states if n <= n_past), default=0)

    def put_back(self, handle: Any, memory: Any, n_past: int) -> bool:
        """Let the context hold the tokens of a state, and no others; if that failed, it holds nothing sensible."""
        data = next(data for n, data in self.states if n == n_past)
        moved = _move(native.llama_state_seq_set_data_ext, handle, data)
        return moved and bool(native.llama_memory_seq_rm(memory, SEQUENCE, n_past, -1))

    def forget_behind(self, n_past: int) -> None:
        """The context holds only so many tokens any more."""
        self.states = [(n, data) for n, data in self.states if n <= n_past]

    def close(self) -> None:
        """Free the copies."""
        self.states.clear()


def _move(function: Any, handle: Any, data: Any) -> bool:
    size = len(data)
    return bool(function(handle, data, size, SEQUENCE, native.LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY) == size)
