"""The pictures in a sequence, and copies of its state."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import psutil

from app.core.errors import UsageError
from app.engine.pictures import begins_picture
from app.llama.batch import SEQUENCE, EncodedPicture, EncodePicture, RowBatch
from app.llama.library import native
from app.models.memory_estimate import n_saved_states

_STATE_SHARE = 0.5
"""Largest share of the available RAM for a saved sequence."""


class PictureCells:
    """The cells of pictures in a sequence; some have no position of their own.

    Attributes:
        n_skipped: Sum of these cells; later positions are smaller by this number.
        unfinished: Cells before a partly evaluated picture, if there is one.
    """

    def __init__(self) -> None:
        self._picture: EncodedPicture | None = None
        self.unfinished: int | None = None
        self.set_skipped(())

    def set_skipped(self, skipped: Iterable[tuple[int, int]]) -> None:
        self.skipped = tuple(skipped)
        self.n_skipped = sum(n for _, n in self.skipped)

    def cut(self, n_past: int) -> None:
        """Forget all pictures that end after the first `n_past` cells."""
        self._picture = self.unfinished = None
        if self.skipped:
            self.set_skipped((end, n) for end, n in self.skipped if end <= n_past)

    def position(self, n_past: int) -> int:
        """Return the position after the first `n_past` cells."""
        return n_past - sum(n for end, n in self.skipped if end <= n_past)

    def next_batch(
        self, ids: Sequence[int], encode: EncodePicture, n_past: int, n_outputs: int
    ) -> tuple[RowBatch, bool]:
        """Return the next rows of a picture, encoded at its beginning, and whether a row sees only earlier rows."""
        if begins_picture(ids[0]):
            self._picture, self.unfinished = encode(ids), n_past
        if self._picture is None or self.unfinished is None:
            raise UsageError("A batch begins inside a picture.")
        picture, done, n = self._picture, n_past - self.unfinished, len(ids)
        if done + n > len(picture.rows) or not (picture.cells.is_causal or n == len(picture.rows)):
            raise UsageError(f"A batch has {n} rows of a picture of {len(picture.rows)}.")
        return picture.batch(done, n, self.unfinished - self.n_skipped, n_outputs), picture.cells.is_causal

    def advance(self, n_past: int) -> None:
        """Record that the last batch was evaluated; it may be the end of its picture."""
        assert self._picture is not None
        assert self.unfinished is not None
        n_cells = len(self._picture.rows)
        if n_past == self.unfinished + n_cells:
            if (n_skipped := n_cells - self._picture.cells.n_positions) > 0:
                self.set_skipped((*self.skipped, (n_past, n_skipped)))
            self._picture = self.unfinished = None


class _Functions(NamedTuple):
    """llama.cpp's functions that copy one kind of state, and their last arguments."""

    size: Any
    get: Any
    set: Any
    arguments: tuple[int, ...]

    def move(self, function: Any, handle: Any, data: bytearray | memoryview) -> bool:
        """Copy a state from or to a context; return whether llama.cpp copied all bytes."""
        size = len(data)
        view = (ctypes.c_uint8 * size).from_buffer(data)
        return bool(function(handle, view, size, *self.arguments) == size)


_PART_FUNCTIONS = _Functions(
    native.llama_state_seq_get_size_ext,
    native.llama_state_seq_get_data_ext,
    native.llama_state_seq_set_data_ext,
    (SEQUENCE, native.LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY),
)
_SEQUENCE_FUNCTIONS = _Functions(
    native.llama_state_seq_get_size, native.llama_state_seq_get_data, native.llama_state_seq_set_data, (SEQUENCE,)
)
_CONTEXT_FUNCTIONS = _Functions(
    native.llama_state_get_size, native.llama_state_get_data, native.llama_state_set_data, ()
)


class StateCopies:
    """Copies of states of a native context, in RAM.

    Attributes:
        kept: Copies of a recurrent state, or of the sliding window, by number of tokens, fewest first; valid while the
            cache holds these tokens.
    """

    def __init__(self, handle: Any, *, has_window: bool) -> None:
        self._handle = handle
        # A sequence's state leaves out tokens before a sliding window, so it could not be cut after a restore.
        self._whole = _CONTEXT_FUNCTIONS if has_window else _SEQUENCE_FUNCTIONS
        self.kept: dict[int, Any] = {}

    def keep(self, n_past: int) -> None:
        """Save the part of the present state that cannot be rolled back to."""
        if size := int(_PART_FUNCTIONS.size(self._handle, *_PART_FUNCTIONS.arguments)):
            if len(self.kept) >= n_saved_states(size):
                del self.kept[min(self.kept)]
            data = bytearray(size)
            if _PART_FUNCTIONS.move(_PART_FUNCTIONS.get, self._handle, data):
                self.kept[n_past] = data

    def restore_kept(self, n_past: int) -> int:
        """Restore the last saved state of at most `n_past` tokens; return its tokens, or 0 on failure."""
        best = max((n for n in self.kept if n <= n_past), default=0)
        return best if best and _PART_FUNCTIONS.move(_PART_FUNCTIONS.set, self._handle, self.kept[best]) else 0

    def cut(self, n_past: int) -> None:
        """Forget the saved states of more tokens."""
        self.kept = {n: data for n, data in self.kept.items() if n <= n_past}

    def copy(self) -> bytearray | None:
        """Return a copy of the whole sequence; None if RAM is short or llama.cpp fails."""
        size = int(self._whole.size(self._handle, *self._whole.arguments))
        if not 0 < size <= _STATE_SHARE * psutil.virtual_memory().available:
            return None
        data = bytearray(size)
        return data if self._whole.move(self._whole.get, self._handle, data) else None

    def restore(self, data: bytearray | memoryview) -> bool:
        """Replace the sequence by a copy."""
        return self._whole.move(self._whole.set, self._handle, data)
