"""Messages as a model reads them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Role(Enum):
    """The author of a message."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"


@dataclass(frozen=True, slots=True)
class Message:
    """One message; `content` is without the reasoning."""

    role: Role
    content: str
    reasoning: str = ""


@dataclass(frozen=True, slots=True)
class Prefill:
    """An answer that ended early and is continued; without text, its reasoning is."""

    text: str
    reasoning: str = ""
