"""Reasoning before the answer: on, off, and how hard."""

from __future__ import annotations

from dataclasses import dataclass

EFFORTS = ("low", "medium", "high", "max")
NO_SWITCH = "has no switch for thinking"
NO_EFFORT = "is not told how hard to think"
EFFORT_IF_ON = "is told how hard to think only where it is asked to think"


@dataclass(frozen=True, slots=True)
class Thinking:
    """The requested reasoning; models without it ignore it.

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
    """Reasoning settings that a model supports.

    Attributes:
        wanted: Whether it can be asked to think or not.
        effort: Whether it can be asked how hard, where no one says whether it is to think.
        effort_on: The same where it is asked to.
    """

    wanted: bool = True
    effort: bool = True
    effort_on: bool = True

    def in_vain(self, typed: Thinking, now: Thinking) -> tuple[str, ...]:
        """Return which of these requests a model ignores, as sentences.

        Args:
            typed: What flags ask for.
            now: What is asked for, by flags and settings.
        """
        told = []
        if typed.wanted is not None and not self.wanted:
            other = " How hard it thinks is for --reasoning-effort." if self.effort and typed.effort is None else ""
            told.append(f"This model {NO_SWITCH}: --thinking changes nothing.{other}")
        if typed.effort is not None and now.wanted is False:
            told.append("Thinking is asked to be off, so --reasoning-effort is not told to the model.")
        elif typed.effort is not None and (why := self.no_effort(now.wanted)):
            add = " Add --thinking on." if why == EFFORT_IF_ON else ""
            told.append(f"This model {why}: --reasoning-effort changes nothing.{add}")
        return tuple(told)

    def no_effort(self, wanted: bool | None) -> str:
        """Return why a model ignores the effort; "" if it does not.

        Args:
            wanted: Whether it is asked to think, if anybody says so.
        """
        if self.effort_on if wanted else self.effort:
            return ""
        return EFFORT_IF_ON if self.effort_on else NO_EFFORT
