"""A pair between two steps of its set-up: known, checked, and not yet brought."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass, replace
from typing import TYPE_CHECKING, Protocol

from app.core.printable import printable
from app.core.units import MAX_SIZE
from app.models.catalog import Pair
from app.models.compatibility import PairCheck
from app.models.memory_estimate import longest_trained
from app.models.pair_size import with_size
from app.models.source import ModelSource

if TYPE_CHECKING:
    from app.models.resolve import Resolved


TARGET, DRAFT = "target", "draft"


@dataclass(frozen=True, slots=True)
class Prepared:
    """A pair whose files are known and whose headers have been read.

    Attributes:
        pair: What was asked for.
        target: Its files.
        draft: The draft's, or None.
        check: What the headers say.
        download_bytes: What has still to come.
        free_bytes: Of the disk it comes to, beside what other downloads have still to bring.
    """

    pair: Pair
    target: Resolved
    draft: Resolved | None
    check: PairCheck
    download_bytes: int
    free_bytes: int

    @property
    def models(self) -> tuple[tuple[str, Resolved], ...]:
        """Role and files of each model."""
        return ((TARGET, self.target),) if self.draft is None else ((TARGET, self.target), (DRAFT, self.draft))

    @property
    def notes(self) -> tuple[str, ...]:
        """Return what is not as it seems, in sentences."""
        damaged = [file.path.rsplit("/", 1)[-1] for _, model in self.models for file in model.damaged]
        return tuple(f"{name} is here, but damaged: it is to be downloaded again." for name in damaged)

    @property
    def sized(self) -> Pair:
        """The pair with the sizes of its files."""
        target, draft = with_size(self.pair.target, self.target.size), None
        if self.pair.draft is not None and self.draft is not None:
            draft = with_size(self.pair.draft, self.draft.size)
        return replace(self.pair, target=target, draft=draft)


def completed(pair: Pair, target: Resolved, check: PairCheck) -> Pair:
    """The pair with what the catalogue leaves out, such as the license that the hub names, and what the headers say."""
    licence, facts, working = pair.licence or printable(target.licence), check.target, check.overhead
    mixture = facts.bytes_per_token if facts.expert_share < 1 else 0
    return replace(
        pair,
        licence=licence,
        bytes_per_token=pair.bytes_per_token or mixture,
        context=pair.context or (longest_trained(facts.n_ctx_train) if facts.n_ctx_train else 0),
        # A header may tell of layers that no machine could hold, and no catalogue.
        working=working if max(astuple(working)) <= MAX_SIZE else pair.working,
    )


KEEP_FREE = 200_000_000
"""Disk that is left to everybody else."""


def has_room(to_come: int, free_bytes: int) -> bool:
    """Return whether so many bytes can come to a disk with so much room."""
    return not to_come or to_come + KEEP_FREE <= free_bytes


class Coming(Protocol):
    """A model that may have to be downloaded."""

    @property
    def source(self) -> ModelSource:
        """As it was asked for."""

    @property
    def content(self) -> Hashable:
        """Return what comes: the same for anyone who wants it, however they asked."""

    @property
    def missing_bytes(self) -> int:
        """Return what has still to come, as the disk is now."""


def missing_bytes(models: Iterable[Coming]) -> int:
    """Return what has still to come of some models, those counted once that are the same."""
    return sum(model.missing_bytes for model in {model.content: model for model in models}.values())


class Underway:
    """The downloads of one process. What they have still to bring is free on the disk, and spoken for."""

    def __init__(self) -> None:
        # Anyone who refuses may ask what is promised.
        self._lock = threading.RLock()
        self._coming: list[Coming] = []

    def promised(self, wanted: Collection[Coming] = (), sources: Collection[ModelSource] = ()) -> int:
        """Bytes that others have still to bring.

        Args:
            wanted: Models that are wanted here as well, and do not count.
            sources: The same, of models whose files are not known yet.
        """
        ours = {model.content for model in wanted}
        with self._lock:
            return missing_bytes(
                model for model in self._coming if model.content not in ours and model.source not in sources
            )

    @contextmanager
    def bringing(self, wanted: Collection[Coming], refuse: Callable[[int], None]) -> Iterator[None]:
        """While these models come.

        Args:
            wanted: The models.
            refuse: Told the bytes that are promised to others; raises where the disk has no room beside these.
        """
        with self._lock:
            # Of two that begin at once, the second sees the first.
            refuse(self.promised(wanted))
            self._coming += wanted
        try:
            yield
        finally:
            with self._lock:
                for model in wanted:
                    self._coming.remove(model)
