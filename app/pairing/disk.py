"""Whether the disk has room for a download, beside those that are under way."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Protocol

KEEP_FREE = 200_000_000
"""Disk that is left to everybody else."""


def has_room(to_come: int, free_bytes: int) -> bool:
    """Whether so many bytes can come to a disk with so much room."""
    return not to_come or to_come + KEEP_FREE <= free_bytes


class Coming(Protocol):
    """A model that may have to be downloaded; hashable, the same for whoever wants it."""

    @property
    def missing_bytes(self) -> int:
        """What has still to come, as the disk is now."""


class Underway:
    """The downloads of one process. What they have still to bring is free on the disk, and spoken for."""

    def __init__(self) -> None:
        # Whoever refuses may ask what is promised.
        self._lock = threading.RLock()
        self._coming: list[Coming] = []

    def promised(self, wanted: Collection[Coming] = ()) -> int:
        """Bytes that others have still to bring, but for models that are wanted here as well."""
        with self._lock:
            return self._promised(wanted)

    @contextmanager
    def bringing(self, wanted: Collection[Coming], refuse: Callable[[int], None]) -> Iterator[None]:
        """While these models come.

        Args:
            wanted: The models.
            refuse: Told the bytes that are promised to others; raises where the disk has no room beside these.
        """
        with self._lock:
            # Of two that begin at once, the second sees the first.
            refuse(self._promised(wanted))
            self._coming += wanted
        try:
            yield
        finally:
            with self._lock:
                for model in wanted:
                    self._coming.remove(model)

    def _promised(self, wanted: Collection[Coming]) -> int:
        return sum(model.missing_bytes for model in dict.fromkeys(self._coming) if model not in wanted)
