"""When a plain step is taken only to see what one takes here, and what it tells.

Where drafts win in every round, single rows are never run: what they take is what a first measurement said, or
yesterday's power mode, and the speed-up that is told and remembered rests on it. The wide batches have been followed
meanwhile, so what a single row then takes else than was thought is its own, and no news of the machine's speed.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field
from typing import ClassVar


@dataclass(slots=True)
class SingleTokenCheck:
    """Counts what went by without a single row.

    Attributes:
        waited: Rounds since the last one.
        behind: The longest context that one was seen behind, in tokens.
        seen: Of the check that goes on: by how much single rows were off, as logarithms.
    """

    EVERY: ClassVar[int] = 128
    """Rounds; a step costs what a draft would have brought, less than a hundredth of them."""
    SOON: ClassVar[int] = 32
    """Rounds after which costs from another day are looked at first, and those that were far off once more; a short
    answer ends before."""
    FAR: ClassVar[int] = 4
    """A context so many times longer than any that a single row was seen behind is another place."""
    KNOWN_BEHIND: ClassVar[int] = 1024
    """What a first measurement tells of contexts reaches about so far."""
    HELD_UP: ClassVar[float] = 0.25
    """Where wide batches take such a share of what was measured, and no single row was seen yet, that one need not have
    been slowed like them: while the weights came from a disk, all widths took as long."""
    NOISE: ClassVar[float] = 0.1
    """A row that is off by more is followed by two, and the middle one counts."""
    LOOKS: ClassVar[int] = 3
    FEW: ClassVar[int] = 8
    MOST: ClassVar[float] = 0.25
    CLIP: ClassVar[float] = 0.25
    """Of what one that nobody asked for is off, up to so much, such a share is its own at most; less, the fewer wide
    batches it comes behind, and nothing behind few: they tell what the machine does."""

    waited: int = EVERY - SOON
    behind: int = 0
    seen: list[float] = field(default_factory=list)

    def is_due(self, n_past: int) -> bool:
        """Whether the next round should be a plain step."""
        return self.is_checking or n_past > self.FAR * max(self.behind, self.KNOWN_BEHIND)

    @property
    def is_checking(self) -> bool:
        """Whether the next single row tells what single rows cost, and nothing else."""
        return bool(self.seen) or self.waited >= self.EVERY

    def pass_by(self, share: float) -> None:
        """Count a wide batch, behind which everything is taken to need such a share of what was measured."""
        self.waited += 1
        if not self.behind and share < self.HELD_UP:
            self.waited = max(self.waited, self.EVERY)

    def observe(self, n_past: int, ns: float, expected_ns: float) -> float:
        """Learn from a single row.

        Args:
            n_past: Tokens in the cache before it.
            ns: What it took.
            expected_ns: What it should have taken.

        Returns:
            The factor by which one costs more than was thought.
        """
        self.behind = max(self.behind, n_past)
        off = math.log(max(ns, 1.0) / max(expected_ns, 1.0))
        if not self.is_checking:
            share = min(self.MOST, self.waited / self.EVERY) if self.waited >= self.FEW else 0.0
            self.waited = 0
            return math.exp(share * max(-self.CLIP, min(self.CLIP, off)))
        self.seen.append(off)
        is_off = abs(self.seen[0]) > self.NOISE
        if is_off and len(self.seen) < self.LOOKS:
            return 1.0
        self.waited = self.EVERY - self.SOON if is_off else 0
        off, self.seen = statistics.median(self.seen) if is_off else off / 2, []
        return math.exp(off)
