"""Settings of answers, and the requests made with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from app.conversations.message import Message, Role
from app.conversations.tree import as_message
from app.core.pictures import PictureLimits
from app.engine.types import AutoDraft
from app.settings.layers import Origin, Resolved, Thinking, automatic, drafting, sampling, thinking
from app.worker.request import AnswerRequest

_SUMMARY_TITLE = "Summary of the earlier conversation:"


@dataclass(frozen=True, slots=True)
class ChatSettings:
    """Settings of answers.

    Attributes:
        title: Name of the pair, shown until it is loaded.
        request: What every answer asks for; messages and the rest are added to it.
        automatic: Automatic drafting in a comparison, whatever the request has.
        system_yields: Whether a system message in the conversation replaces `system`.
        context_full: What happens to earlier messages when the context is full: "compact", "drop" or "stop".
        titles: Whether the model names a conversation after its first answer.
        tools: Names of the MCP servers whose tools the model may call; None for all that are not disabled.
        tool_rounds: Answers with calls in a row before the user is asked.
        pictures: Limits of pictures; None if requests may have none.
    """

    title: str
    request: AnswerRequest = field(default_factory=lambda: AnswerRequest(()))
    automatic: AutoDraft = field(default_factory=AutoDraft)
    system: str | None = None
    system_yields: bool = False
    context_full: str = "compact"
    titles: bool = False
    tools: tuple[str, ...] | None = None
    tool_rounds: int = 25
    pictures: PictureLimits | None = None


def chat_settings(title: str, now: Resolved) -> ChatSettings:
    """Return the current settings of answers."""
    return ChatSettings(
        title,
        AnswerRequest(
            messages=(),
            sampling=sampling(now),
            drafting=drafting(now),
            max_tokens=now.number("answer.max_tokens"),
            stops=now.names("answer.stop"),
            thinking=thinking(now),
            stop_on_repeat=now["answer.stop_on_repeat"] is True,
        ),
        automatic=automatic(now),
        system=cast("str | None", now["answer.system"]),
        titles=now["answer.titles"] is True,
        context_full=str(now["answer.context_full"]),
        tools=cast("tuple[str, ...] | None", now["answer.tools"]),
        tool_rounds=cast("int", now["answer.tool_rounds"]),
        system_yields=now.origin("answer.system") not in (Origin.FLAG, Origin.CONVERSATION),
        pictures=picture_limits(now),
    )


def picture_limits(now: Resolved) -> PictureLimits:
    """Return the limits of pictures."""
    size, pixels, ratio = (cast("float", now[f"answer.picture_{name}"]) for name in ("size", "pixels", "ratio"))
    return PictureLimits(size, pixels, ratio)


def answer_request(
    settings: ChatSettings,
    prompt: str,
    before: Sequence[Message],
    summary: str = "",
    name: str = "",
    after: Sequence[Message] = (),
) -> AnswerRequest:
    """Return the request for an answer to a prompt below other messages.

    Args:
        before: The messages that the model reads.
        summary: Summary of those before them, which joins the system prompt.
        name: Names the state of the caches; "" for none.
        after: Calls of tools and their results, which the model reads after the prompt.
    """
    # An imported conversation may begin with a system message; templates take one, in front.
    own = before[:1] if before and before[0].role is Role.SYSTEM else ()
    system = (as_message(Role.SYSTEM, settings.system),) if settings.system else own
    system = own if own and settings.system_yields else system
    if summary:
        texts = [message.content for message in system] + [f"{_SUMMARY_TITLE}\n{summary}"]
        system = (as_message(Role.SYSTEM, "\n\n".join(texts)),)
    turns = (message for message in before if message.role is not Role.SYSTEM)
    messages = (*system, *turns, as_message(Role.USER, prompt), *after)
    return replace(settings.request, messages=messages, conversation=name)


def shortened(request: AnswerRequest, max_tokens: int) -> AnswerRequest:
    """Return the same request for a short text without reasoning."""
    return replace(request, max_tokens=max_tokens, stops=(), thinking=Thinking(enabled=False))
