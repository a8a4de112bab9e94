"""An earlier state of a model that cannot be cut back to it: copied, and put back."""

from __future__ import annotations

import ctypes
from typing import Any

from app.llama.batch import SEQUENCE
from app.llama.library import native


class KeptState:
    """One state of a context: what llama.cpp calls partial, so what attention holds of every token is not in it.

    That stays where it is. So the state is good as long as the context still holds all tokens that it is of.

    Attributes:
        n_past: Tokens that it is of; 0 for none.
    """

    def __init__(self) -> None:
        self.n_past = 0
        self._data: Any = None

    def take(self, handle: Any, n_past: int) -> None:
        """Copy the state of a context that holds so many tokens, in the place of the one before; without room, none."""
        size = int(native.llama_state_seq_get_size_ext(handle, SEQUENCE, native.LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY))
        self.n_past = 0
        try:
            if self._data is None or len(self._data) != size:
                self._data = None
                self._data = (ctypes.c_ubyte * size)()
        except MemoryError:
            return
        if size and self._move(native.llama_state_seq_get_data_ext, handle) == size:
            self.n_past = n_past

    def put_back(self, handle: Any, memory: Any) -> bool:
        """Let the context hold the tokens of the state, and no others; if that failed, it holds nothing sensible."""
        moved = self._move(native.llama_state_seq_set_data_ext, handle)
        return moved == len(self._data) and bool(native.llama_memory_seq_rm(memory, SEQUENCE, self.n_past, -1))

    def _move(self, function: Any, handle: Any) -> int:
        size = len(self._data)
        return int(function(handle, self._data, size, SEQUENCE, native.LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY))

    def forget_behind(self, n_past: int) -> None:
        """The context holds only so many tokens any more."""
        if n_past < self.n_past:
            self.n_past = 0

    def close(self) -> None:
        """Free the copy."""
        self.n_past, self._data = 0, None
