"""Whether the disk has room for a download, beside those that are under way."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol

from app.models.source import ModelSource

KEEP_FREE = 200_000_000
"""Disk that is left to everybody else."""


def has_room(to_come: int, free_bytes: int) -> bool:
    """Whether so many bytes can come to a disk with so much room."""
    return not to_come or to_come + KEEP_FREE <= free_bytes


class Coming(Protocol):
    """A model that may have to be downloaded."""

    @property
    def source(self) -> ModelSource:
        """As it was asked for."""

    @property
    def content(self) -> Hashable:
        """What comes: the same for whoever wants it, however they asked."""

    @property
    def missing_bytes(self) -> int:
        """What has still to come, as the disk is now."""


def missing_bytes(models: Iterable[Coming]) -> int:
    """What has still to come of some models, those counted once that are the same."""
    return sum(model.missing_bytes for model in {model.content: model for model in models}.values())


class Underway:
    """The downloads of one process. What they have still to bring is free on the disk, and spoken for."""

    def __init__(self) -> None:
        # Whoever refuses may ask what is promised.
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
