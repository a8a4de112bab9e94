"""Separate the time of a step from stalls of the machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class StepTime:
    """The time of a step by cause, in nanoseconds.

    Attributes:
        counted_ns: Counts for or against its draft, or as the price of a single token.
        stalled_ns: Lost to other work, which no draft would have lost too; negative where an earlier stall turned out
            to be the draft's.
        reading_ns: Spent by the draft model on text that it had missed.
    """

    counted_ns: float
    stalled_ns: float = 0.0
    reading_ns: float = 0.0


@dataclass(slots=True)
class Stalls:
    """Keep a machine that stood still from counting against a draft.

    A step that takes much longer than expected says nothing about drafting: another program started, or weights are
    read from disk again. The next step is a single token; if that is fast and the next draft is slow again, both count.

    Attributes:
        waiting: Whether the next step should be a single token.
    """

    LIMIT: ClassVar[float] = 2.0
    """A step that takes more than this many times the expected time was stalled."""

    waiting: bool = False
    _stalled_ns: float = 0.0

    def split(self, total_ns: float, reading_ns: float, expected_ns: float, *, drafted: bool) -> StepTime:
        """Return the time of a step by cause.

        Args:
            total_ns: All of it.
            reading_ns: The part that the draft model spent on text it had missed.
            expected_ns: Expected time of the rest.
            drafted: Whether anything was drafted.
        """
        measured = total_ns - reading_ns
        usual = min(measured, self.LIMIT * expected_ns)
        stalled = measured - usual
        if not drafted:
            self.waiting = self.waiting and stalled > 0
            return StepTime(usual, stalled, reading_ns)
        before, self._stalled_ns = self._stalled_ns, 0.0
        if stalled > 0 and before > 0:
            return StepTime(measured + before, -before, reading_ns)
        self.waiting, self._stalled_ns = stalled > 0, stalled
        return StepTime(usual, stalled, reading_ns)
