"""Whoever follows a download."""

from __future__ import annotations

from typing import Protocol


class Watcher(Protocol):
    """Told how a download goes, on the thread that downloads."""

    def received(self, n_bytes: int) -> None:
        """More bytes have come, and nothing is waited for any more."""

    def found(self, n_bytes: int) -> None:
        """More bytes were here already; negative when some turned out to be worthless."""

    def waiting(self, reason: str, seconds: float) -> None:
        """No byte comes for the reason given, and none is asked for until these seconds are over; "" as it goes on."""


class _Unwatched:
    """Follows nothing."""

    def received(self, n_bytes: int) -> None:
        pass

    def found(self, n_bytes: int) -> None:
        pass

    def waiting(self, reason: str, seconds: float) -> None:
        pass


UNWATCHED: Watcher = _Unwatched()
"""For what nobody follows."""
