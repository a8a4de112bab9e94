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
    """One message.

    Attributes:
        role: Its author.
        content: The text without reasoning.
        reasoning: The model's reasoning before the text.
    """

    role: Role
    content: str
    reasoning: str = ""


@dataclass(frozen=True, slots=True)
class Begun:
    """An answer that ended early and is continued.

    Attributes:
        text: Its text, with trailing spaces.
        reasoning: Its reasoning, continued where there is no text yet.
    """

    text: str
    reasoning: str = ""
