"""Candidates for the next token: the most probable tokens of a row, in the form of llama.cpp's samplers."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.engine.interfaces import Logits
from app.llama.library import function, native

_DTYPE = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])
"""llama.cpp's `llama_token_data`."""
_N_ROWS = 16
"""Rows of the folded logits: 16 take least time for vocabularies of 32,000 to 262,144."""
_N_GROUPS = 256
"""Groups of columns whose maxima are sorted; at least twice the number of wanted tokens."""

# The binding's own prototype checks the types of pointers, which takes as long as the call.
_apply = function("llama_sampler_apply", None, [ctypes.c_void_p, ctypes.c_void_p])


class Candidates:
    """A reusable array of `llama_token_data`."""

    def __init__(self) -> None:
        self._array = native.llama_token_data_array(None, 0, -1, False)
        self._reference = ctypes.byref(self._array)
        self._make_room(0)

    def _make_room(self, n: int) -> None:
        self._data = np.zeros(n, _DTYPE)
        self._ids, self._logits = self._data["id"], self._data["logit"]
        self._address = ctypes.cast(self._data.ctypes.data, native.llama_token_data_p)

    def apply(self, sampler: Any, tokens: NDArray[np.intp], logits: Logits) -> Logits:
        """Apply a native sampler or chain to tokens with these logits; return the remaining logits.

        They are in the sampler's order, and valid until the next call.
        """
        n, array = len(tokens), self._array
        if n > len(self._data):
            self._make_room(2 * n)
        self._ids[:n], self._logits[:n] = tokens, logits
        # XTC moves the pointer, so it is set each time.
        array.data, array.size, array.selected, array.sorted = self._address, n, -1, False
        _apply(sampler, self._reference)
        return self._logits[:n]

    @property
    def selected(self) -> int:
        """Return the token that the last chain selected."""
        return int(self._array.data[self._array.selected].id)


class Shortlist:
    """Finds the largest of `n_vocab` logits without sorting all of them."""

    def __init__(self, n_vocab: int) -> None:
        self._all = np.arange(n_vocab)
        self._width = width = n_vocab // _N_ROWS
        self._n_folded = width * _N_ROWS
        self._row_starts = np.arange(0, self._n_folded, width or 1)[:, None]
        self._peaks = np.empty(width, np.float32)
        self._make_groups(_N_GROUPS)

    def _make_groups(self, n: int) -> None:
        depth = self._width // n
        self._grouped = self._peaks[: depth * n].reshape(depth, n)
        self._group_peaks = np.empty(n, np.float32)

    def find(self, logits: Logits, k: int) -> NDArray[np.intp]:
        """Return the tokens of the `k` largest logits and of other tokens in their columns; NaN counts as large.

        The vocabulary is folded into columns, and these into groups. The k-th largest maximum of a group is at most
        the k-th largest logit, so only columns whose maximum reaches it can hold one of the `k` largest. A small
        vocabulary is returned as a whole.
        """
        groups = self._group_peaks
        while len(groups) < 2 * k:
            self._make_groups(2 * len(groups))
            groups = self._group_peaks
        if not len(self._grouped):
            return self._all
        np.maximum.reduce(logits[: self._n_folded].reshape(_N_ROWS, self._width), axis=0, out=self._peaks)
        np.maximum.reduce(self._grouped, axis=0, out=groups)
        groups.partition(len(groups) - k)
        # Written so that a comparison with NaN is true.
        (columns,) = (~(self._peaks < groups[-k])).nonzero()
        found = (columns + self._row_starts).ravel()
        rest = self._all[self._n_folded :]
        return np.concatenate((found, rest)) if len(rest) else found
