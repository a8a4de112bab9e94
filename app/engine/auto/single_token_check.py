"""Take a single-token step now and then, to know what drafting gains.

Where every step drafts, the cost of a single token would be that of an old measurement, and so would the speedup.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar


@dataclass(slots=True)
class SingleTokenCheck:
    """Count the steps since the last single token.

    Attributes:
        waited: Steps with drafts since then.
    """

    EVERY: ClassVar[int] = 128
    """Steps; a check costs what one draft would have gained, less than a hundredth of them."""
    SOON: ClassVar[int] = 32
    """Steps until the first check, because short answers end before `EVERY`."""

    waited: int = EVERY - SOON

    @property
    def is_due(self) -> bool:
        """Return whether the next step should be a single token."""
        return self.waited >= self.EVERY

    def observe(self, ns: float, expected_ns: float) -> float:
        """Learn from a single-token step.

        Returns:
            The factor by which a single token costs more than expected; 1 unless a check was due.
        """
        was_due, self.waited = self.is_due, 0
        # Half of it: a single measurement may have been disturbed.
        return math.exp(0.5 * math.log(max(ns, 1.0) / max(expected_ns, 1.0))) if was_due else 1.0
