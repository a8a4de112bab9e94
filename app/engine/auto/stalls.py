"""What a machine that does other things too adds to rounds, and what of it is put down to drafts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Took:
    """What a round took, by what that is put down to, in nanoseconds.

    Attributes:
        counted_ns: What counts for or against its draft, or as the price of a plain step.
        stalled_ns: What something else on the machine took, which plain decoding would have lost too; below zero where
            that of an earlier round turned out to be its draft's.
        reading_ns: What the draft model took for text that it had missed.
        doubtful_ns: What of the counted time is not booked as a loss yet; below zero where that of an earlier round is
            booked now.
    """

    counted_ns: float
    stalled_ns: float = 0.0
    reading_ns: float = 0.0
    doubtful_ns: float = 0.0


@dataclass(slots=True)
class Stalls:
    """Keeps what held a round up from being put down to its draft.

    Another program starts, or pages of a model are read from disk again: a round that takes many times what was
    expected says nothing of drafting, unless the next one with a draft does so too and a plain step between them did
    not. That step is taken on purpose, and more of them for as long as they are held up themselves. A round that takes
    but somewhat longer may not end drafting for the rest of an answer either: the ledger books the excess only if the
    next draft takes longer, too.

    Attributes:
        waiting: Whether the next round should be plain.
    """

    LIMIT: ClassVar[float] = 2.0
    """A round that takes so many times what was expected was held up."""

    USUAL: ClassVar[float] = 1.25
    """Up to so many times is usual: 0.8 to 1.5 were seen where nothing else ran (bf16 weights, two cores)."""

    waiting: bool = False
    _stalled_ns: float = 0.0
    _unbooked_ns: float = 0.0
    _exceeded: bool = False

    def parts(self, total_ns: float, reading_ns: float, expected_ns: float, *, drafted: bool) -> Took:
        """A round's time in its parts.

        Args:
            total_ns: All of it.
            reading_ns: What of it the draft model took for text that it had missed.
            expected_ns: What the rest was expected to be.
            drafted: Whether anything was drafted.
        """
        measured = total_ns - reading_ns
        usual = min(measured, self.LIMIT * expected_ns)
        stalled = measured - usual
        if not drafted:
            self.waiting = self.waiting and stalled > 0
            return Took(usual, stalled, reading_ns)
        doubtful = self._doubtful(usual - self.USUAL * expected_ns)
        before, self._stalled_ns = self._stalled_ns, 0.0
        if stalled > 0 and before > 0:
            return Took(measured + before, -before, reading_ns, doubtful)
        self.waiting, self._stalled_ns = stalled > 0, stalled
        return Took(usual, stalled, reading_ns, doubtful)

    def _doubtful(self, excess: float) -> float:
        """What of a draft's excess is not booked; where the one before had some as well, that is booked now."""
        unbooked, again = self._unbooked_ns, self._exceeded
        self._exceeded = excess > 0
        self._unbooked_ns = excess if self._exceeded and not again else 0.0
        return -unbooked if self._exceeded and again else self._unbooked_ns
