"""A conversation as plain values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Role(Enum):
    """Who speaks."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"


@dataclass(frozen=True, slots=True)
class Message:
    """One turn.

    Attributes:
        role: Who speaks.
        content: The text, without any reasoning.
        reasoning: What the model thought before it said so.
    """

    role: Role
    content: str
    reasoning: str = ""


@dataclass(frozen=True, slots=True)
class Begun:
    """An answer that ended early, as far as it got.

    Attributes:
        text: What was said; with the space at its end, behind which the answer goes on.
        reasoning: The model's thinking; what was thought while nothing was said yet goes on too.
    """

    text: str
    reasoning: str = ""
