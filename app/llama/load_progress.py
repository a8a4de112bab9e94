"""Loading progress of a pair as one figure."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from app.models.split_model import parts_here


class PairProgress:
    """Combine the progress of several models into one share, by bytes.

    Args:
        told: Called with the model being loaded and the share of the pair that is done; returns False to stop.
        models: File of each model, by its name; None where there is none.
    """

    def __init__(self, told: Callable[[str, float], bool], **models: Path | None) -> None:
        self._told = told
        self._n_bytes = {name: _size(path) for name, path in models.items() if path is not None}
        self._shares: dict[str, float] = {}

    def __call__(self, what: str, share: float) -> bool:
        """Report that this share of one model is loaded."""
        # Both files are checked, which reports 0, before the first one is loaded.
        self._shares[what] = max(share, self._shares.get(what, 0.0))
        done = sum(self._shares.get(name, 0.0) * size for name, size in self._n_bytes.items())
        return self._told(what, done / max(1, sum(self._n_bytes.values())))


def _size(path: Path) -> int:
    try:
        return sum(part.stat().st_size for part in parts_here(path))
    except OSError:
        # The loader reports a missing file.
        return 0
