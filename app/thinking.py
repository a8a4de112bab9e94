"""Whether a model is to think before it answers."""

from __future__ import annotations

from dataclasses import dataclass

EFFORTS = ("low", "medium", "high")
NO_SWITCH = "has no switch for thinking"
NO_EFFORT = "is not told how hard to think"


@dataclass(frozen=True, slots=True)
class Thinking:
    """What is asked of a model that can think; others are not changed by it.

    Attributes:
        wanted: Whether it thinks; None as its template has it.
        effort: One of `EFFORTS`, where the template knows how to ask for one; None as it has it.
    """

    wanted: bool | None = None
    effort: str | None = None


AS_TRAINED = Thinking()
"""As the template has it."""


@dataclass(frozen=True, slots=True)
class Heard:
    """Which of these wishes make a difference to a model.

    Attributes:
        wanted: Whether it can be asked to think or not.
        effort: Whether it can be asked how hard.
    """

    wanted: bool = True
    effort: bool = True

    def in_vain(self, asked: Thinking) -> tuple[str, ...]:
        """What of these wishes changes nothing, as sentences."""
        told = []
        if asked.wanted is not None and not self.wanted:
            told.append(f"This model {NO_SWITCH}: --thinking changes nothing.")
        if asked.effort is not None and asked.wanted is not False and not self.effort:
            told.append(f"This model {NO_EFFORT}: --reasoning-effort changes nothing.")
        return tuple(told)
