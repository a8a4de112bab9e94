"""What the chat is started with."""

from __future__ import annotations

from dataclasses import dataclass, field

from app.engine.types import Drafting, SamplingParams


@dataclass(frozen=True, slots=True)
class ChatSettings:
    """How answers are asked for.

    Attributes:
        title: What is being loaded, shown until the models say their names.
        sampling: The target's sampler chain.
        drafting: Automatic, fixed parameters, or None for plain decoding.
        system: System message, or None.
        max_tokens: Most tokens of an answer, or None.
        stops: Strings that end an answer.
    """

    title: str
    sampling: SamplingParams = field(default_factory=SamplingParams)
    drafting: Drafting = None
    system: str | None = None
    max_tokens: int | None = None
    stops: tuple[str, ...] = ()
