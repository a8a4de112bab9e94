"""What drafts and why, for as long as it takes to read: an engine may change its mind with every round."""

from __future__ import annotations

from dataclasses import replace

from app.engine.types import DraftingStatus

_HOLD_NS = 1_000_000_000
"""Of the engine's own clock, so that it does not matter when the screen looks."""


class Steady:
    """The source and the reason of one answer's drafts, each pair of them shown for a second at least."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Another answer."""
        self._shown: DraftingStatus | None = None
        self._since_ns = 0

    def take(self, status: DraftingStatus | None, now_ns: int) -> DraftingStatus | None:
        """What to show after a round: the newest figures, with a source and a reason that can be read.

        Args:
            status: As the engine tells it.
            now_ns: Nanoseconds of generation so far.
        """
        shown = self._shown
        if status is None or shown is None or not self._since_ns < now_ns < self._since_ns + _HOLD_NS:
            if status is None or shown is None or (status.source, status.reason) != (shown.source, shown.reason):
                self._since_ns = now_ns
            self._shown = status
            return status
        self._shown = replace(status, source=shown.source, reason=shown.reason)
        return self._shown
