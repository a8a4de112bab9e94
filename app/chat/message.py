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
    """

    role: Role
    content: str
