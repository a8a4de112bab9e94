"""Settings of answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from app.conversations.message import Message, Role
from app.engine.types import AutoDraft, Drafting, SamplingParams
from app.settings.layers import Origin, Resolved
from app.settings.params import automatic, drafting, sampling, thinking
from app.settings.thinking import AS_TRAINED, Thinking
from app.worker.request import AnswerRequest


@dataclass(frozen=True, slots=True)
class ChatSettings:
    """Settings of answers.

    Attributes:
        title: Name of the pair, shown until it is loaded.
        drafting: Automatic, fixed parameters, or None for no draft.
        automatic: Automatic drafting in a comparison, whatever `drafting` is.
        system_yields: Whether a system message in the conversation replaces `system`.
    """

    title: str
    sampling: SamplingParams = field(default_factory=SamplingParams)
    drafting: Drafting = None
    automatic: AutoDraft = field(default_factory=AutoDraft)
    system: str | None = None
    max_tokens: int | None = None
    stops: tuple[str, ...] = ()
    stop_on_repeat: bool = True
    thinking: Thinking = AS_TRAINED
    system_yields: bool = False


def applied(base: ChatSettings, now: Resolved) -> ChatSettings:
    """Return the same pair with the current settings."""
    return replace(
        base,
        sampling=sampling(now),
        drafting=drafting(now),
        automatic=automatic(now),
        system=cast("str | None", now["answer.system"]),
        max_tokens=cast("int | None", now["answer.max_tokens"]),
        stops=cast("tuple[str, ...]", now["answer.stop"]),
        stop_on_repeat=now["answer.stop_on_repeat"] is True,
        thinking=thinking(now),
        system_yields=now.origin("answer.system") not in (Origin.FLAG, Origin.CONVERSATION),
    )


def answer_request(settings: ChatSettings, prompt: str, before: Sequence[Message]) -> AnswerRequest:
    """Return the request for an answer to a prompt below other messages."""
    # An imported conversation may begin with a system message; templates take one, in front.
    own = before[:1] if before and before[0].role is Role.SYSTEM else ()
    system = (Message(Role.SYSTEM, settings.system),) if settings.system else own
    system = own if own and settings.system_yields else system
    turns = (message for message in before if message.role is not Role.SYSTEM)
    return AnswerRequest(
        messages=(*system, *turns, Message(Role.USER, prompt)),
        sampling=settings.sampling,
        drafting=settings.drafting,
        max_tokens=settings.max_tokens,
        stops=settings.stops,
        thinking=settings.thinking,
        stop_on_repeat=settings.stop_on_repeat,
    )
