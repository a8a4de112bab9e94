"""Find the most probable tokens of a row without sorting or copying the whole vocabulary."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from app.engine.interfaces import Logits

_N_ROWS = 64
"""Logits are compared in columns of this many: measured as the fastest for vocabularies of 32,000 to 262,144."""


def shortlist(logits: Logits, k: int) -> NDArray[np.intp]:
    """Return the ids of the `k` largest logits, and perhaps of a few more; NaN counts as large.

    The vocabulary is folded into columns. The k-th largest of their maxima is at most the k-th largest logit, so only
    columns whose maximum reaches it can hold one of the `k` largest. A small vocabulary is returned as a whole.
    """
    width = len(logits) // _N_ROWS
    n_folded = width * _N_ROWS
    if width < k:
        return np.arange(len(logits))
    folded = logits[:n_folded].reshape(_N_ROWS, width)
    peaks = folded.max(axis=0)
    least = np.partition(peaks, width - k)[width - k]
    # Written so that a comparison with NaN is true.
    columns = np.flatnonzero(~(peaks < least))
    rows, places = np.nonzero(~(folded[:, columns] < least))
    found = rows * width + columns[places]
    if n_folded == len(logits):
        return found
    return np.concatenate((found, n_folded + np.flatnonzero(~(logits[n_folded:] < least))))
