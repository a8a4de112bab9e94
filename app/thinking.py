"""Whether a model is to think before it answers."""

from __future__ import annotations

from dataclasses import dataclass

EFFORTS = ("low", "medium", "high")


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
