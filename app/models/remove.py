"""Find the files to delete with a pair; files of other pairs stay."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from app.core.regular_file import is_file
from app.models.catalog import Pair
from app.models.hub import cache
from app.models.registry import ModelOnDisk, SetUp
from app.models.source import DemoModel, HubModel, ModelSource

Origin = Literal["hub", "begun", "made", "package", "own"]
"""Where a file came from: a repository; one, as far as it has come; Tandem's own quantizer; the package that carries
the demo; its owner."""


@dataclass(frozen=True, slots=True)
class Removal:
    """One file of a pair that is forgotten.

    Attributes:
        repo: Its repository; "" for a file that came from none.
        origin: Where it came from.
        path: Where it lies.
        size: Bytes.
        ours: Whether this program downloaded or made it.
        shared: Whether another pair uses it, or may have begun it.
    """

    repo: str
    origin: Origin
    path: Path
    size: int
    ours: bool
    shared: bool

    @property
    def deletable(self) -> bool:
        """Return whether it can be had again and no one else here needs it."""
        return (self.origin == "hub" or self.ours) and not self.shared and is_file(self.path)


def plan_removal(
    pair: SetUp, others: Sequence[SetUp], downloaded: Collection[Path], held: Sequence[ModelOnDisk] = ()
) -> list[Removal]:
    """Every file of a pair, and whether it could go.

    Args:
        pair: What is forgotten.
        others: The other pairs.
        downloaded: Files that this program has brought.
        held: Models that somebody else may need.
    """
    needed = [*(model for other in others for model in other.models), *held]
    used = {path for model in needed for path in model.parts}
    removals = []
    for source, model in zip(pair.pair.sources, pair.models, strict=False):
        origin = _origin(source, model.repo)
        removals += [
            Removal(
                repo=model.repo,
                origin=origin,
                path=path,
                size=path.stat().st_size if is_file(path) else 0,
                ours=origin == "made" or model.ours or path in downloaded,
                shared=path in used,
            )
            for path in model.parts
        ]
    return removals


def plan_unused(unused: Mapping[Path, int]) -> list[Removal]:
    """Return what this program has brought and no pair has; see `Registered.unused`."""
    return [Removal("", "hub", path, size, ours=True, shared=False) for path, size in unused.items()]


def plan_begun(pair: Pair, others: Iterable[Pair]) -> list[Removal]:
    """Return what downloads of a pair's models that were stopped have left.

    Args:
        pair: What is forgotten.
        others: The other pairs of which something may have begun to come.

    Raises:
        HubError: The disk refuses to tell.
    """
    mine, theirs = _on_hub(pair), [source for other in others for source in _on_hub(other)]
    named = {source.sha256 for source in (*mine, *theirs) if source.sha256 is not None}
    # Nothing here tells which of two files of a repository, neither of which has a checksum, has begun to come.
    unknown = [(one, other) for one in mine for other in theirs if one.sha256 is None and other.sha256 is None]
    doubtful = {one.repo for one, other in unknown if one.repo == other.repo and one != other}
    begun = (
        Removal(source.repo, "begun", path, size, ours=True, shared=source.sha256 is None and source.repo in doubtful)
        for source in mine
        for path, size in cache.resumable(source.repo, source.sha256, named).items()
    )
    # Target and draft may be of one repository.
    return list(dict.fromkeys(begun))


def _on_hub(pair: Pair) -> list[HubModel]:
    return [source for source in pair.sources if isinstance(source, HubModel)]


def _origin(source: ModelSource, repo: str) -> Origin:
    if isinstance(source, DemoModel):
        return "package" if source.part == "target" else "made"
    return "hub" if repo else "own"


def remove_files(removals: Sequence[Removal]) -> int:
    """Delete files, but for those that come again now; returns the bytes freed.

    Raises:
        CacheError: The disk refused.
    """
    freed = 0
    for removal in removals:
        with cache.disk_errors():
            freed += (cache.delete_partial if removal.origin == "begun" else cache.delete)(removal.path)
    return freed
