"""What may be deleted with a pair: only what this program brought, and nothing that another pair uses."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.hub import store
from app.hub.errors import translated
from app.registry import SetUp


@dataclass(frozen=True, slots=True)
class Removal:
    """One file of a pair that is forgotten.

    Attributes:
        repo: Its repository; "" for a file of the user's own.
        commit: Of the repository.
        path: Where it lies.
        size: Bytes.
        ours: Whether this program downloaded it.
        shared: Whether another pair uses it.
    """

    repo: str
    commit: str
    path: Path
    size: int
    ours: bool
    shared: bool

    @property
    def deletable(self) -> bool:
        """Whether it lies in the hub's cache and nobody else here needs it."""
        return (bool(self.repo) or self.ours) and not self.shared and self.path.exists()


def plan_removal(pair: SetUp, others: Sequence[SetUp], downloaded: Collection[Path]) -> list[Removal]:
    """Every file of a pair, and whether it could go.

    Args:
        pair: What is forgotten.
        others: The other pairs.
        downloaded: Files that this program has brought.
    """
    used = {path for other in others for model in other.models for path in _files(model.path, model.files)}
    return [
        Removal(
            repo=model.repo,
            commit=model.commit,
            path=path,
            size=path.stat().st_size if path.exists() else 0,
            ours=model.ours or path in downloaded,
            shared=path in used,
        )
        for model in pair.models
        for path in _files(model.path, model.files)
    ]


def _files(path: Path, names: Sequence[str]) -> list[Path]:
    """All parts of a model, from the path of the first and their names in the repository."""
    if len(names) < 2:
        return [path]
    return [path.parent / name.rsplit("/", 1)[-1] for name in names]


def remove_files(removals: Sequence[Removal]) -> int:
    """Delete files from the hub's cache; returns the bytes freed.

    Raises:
        CacheError: The disk refused.
    """
    freed = 0
    for removal in removals:
        with translated(removal.repo):
            freed += store.delete(removal.path)
    return freed
