"""Find the files to delete with a pair; files of other pairs stay."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from app.core.regular_file import is_file
from app.models.catalog import Pair
from app.models.hub import cache
from app.models.registry import SetUp
from app.models.source import DemoModel, HubModel, ModelSource

Origin = Literal["hub", "begun", "made", "package", "own"]
"""A repository; a cut download; Tandem's own quantizer; the demo's package; the user."""


@dataclass(frozen=True, slots=True)
class Removal:
    """One file of a removed pair.

    Attributes:
        origin: Where it came from.
        path: Where it lies.
        size: Bytes.
        ours: Tandem downloaded or made it.
        shared: Another pair uses it.
    """

    origin: Origin
    path: Path
    size: int
    ours: bool
    shared: bool = False

    @property
    def deletable(self) -> bool:
        """It can be downloaded again, and no other pair needs it."""
        return (self.origin == "hub" or self.ours) and not self.shared and is_file(self.path)


def plan_removal(pair: SetUp, others: Sequence[SetUp], downloaded: Collection[Path]) -> list[Removal]:
    """Return every file of a pair.

    Args:
        pair: The pair to remove.
        others: The other pairs.
        downloaded: Files that Tandem has downloaded.
    """
    used = {path for other in others for model in other.models for path in model.parts}
    removals = []
    for source, model in zip(pair.pair.sources, pair.models, strict=False):
        origin = _origin(source, model.repo)
        for path in model.parts:
            size = path.stat().st_size if is_file(path) else 0
            ours = origin == "made" or model.ours or path in downloaded
            removals.append(Removal(origin, path, size, ours, shared=path in used))
    return removals


def plan_unused(unused: Mapping[Path, int]) -> list[Removal]:
    """Return downloaded files that no pair uses; see `Registered.unused`."""
    return [Removal("hub", path, size, ours=True) for path, size in unused.items()]


def plan_partial(pair: Pair) -> list[Removal]:
    """Return what cut downloads of a pair's models have left.

    A model without a known checksum may be any incomplete download of its repository.
    """
    sources = [source for source in pair.sources if isinstance(source, HubModel)]
    begun = [
        Removal("begun", path, size, ours=True)
        for source in sources
        for path, size in cache.unfinished(source.repo).items()
        if cache.is_resumable(path) and source.sha256 in (None, path.name.removesuffix(cache.PARTIAL))
    ]
    # Target and draft may share a repository.
    return list(dict.fromkeys(begun))


def _origin(source: ModelSource, repo: str) -> Origin:
    if isinstance(source, DemoModel):
        return "package" if source.part == "target" else "made"
    return "hub" if repo else "own"


def remove_files(removals: Sequence[Removal]) -> int:
    """Delete files, except downloads that run again; return the bytes freed.

    Raises:
        CacheError: The disk refused.
    """
    freed = 0
    for removal in removals:
        freed += (cache.delete_partial if removal.origin == "begun" else cache.delete)(removal.path)
    return freed
