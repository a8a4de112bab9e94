"""Refuse a prompt that is longer than the context, naming its longest part."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from app.conversations.message import Message, Role
from app.core.errors import ContextOverflowError
from app.core.fixes import fix
from app.models.pair_info import PairInfo, context_limit, enough_for
from app.worker.request import AnswerRequest, LoadedPair

_LEAST_ROOM = 4
"""A short context keeps no more than this part of it free for an answer."""
_SUBJECT_AND_FIX = {
    "prompt": ("The prompt has", "Shorten it"),
    "system": ("The system prompt and this prompt have", "Shorten the system prompt (⟨answer.system⟩)"),
    "answer": ("With the answer so far there are", "Shorten what comes before"),
    "tools": ("The tools have", "Use fewer tools (⟨answer.tools⟩)"),
    "conversation": ("With this prompt the conversation has", "Start a new conversation"),
}
"""What is too long, and how to shorten it."""


def refuse_overflow(pair: LoadedPair, request: AnswerRequest, n_tokens: int) -> None:
    """Raise ContextOverflowError if the context does not hold the tokens of a rendered prompt."""
    n_ctx, n_prompt = pair.target.n_ctx, n_tokens
    if n_tokens + min(request.n_room, n_ctx // _LEAST_ROOM) <= n_ctx:
        return
    messages = request.messages
    # Calls of tools and their results belong to the prompt above them.
    asked = max((at for at, message in enumerate(messages) if message.role is Role.USER), default=len(messages) - 1)
    system, last = [message for message in messages[:asked] if message.role is Role.SYSTEM], messages[asked:]

    pictures = request.pictures[sum(len(message.pictures) for message in messages[:asked]) :]

    def count(*messages: Message, tools: Sequence[Mapping[str, Any]] = request.tools) -> int:
        return len(pair.prompts.build(messages, None, request.thinking, tools, pictures).tokens)

    n_alone = count(*system, *last)
    n_tools = n_alone - count(*system, *last, tools=()) if request.tools else 0
    if 2 * n_tools > n_ctx:
        whose, n_tokens = "tools", n_tools
    elif request.prefill is not None:
        whose = "answer"
    elif n_alone <= n_ctx:
        whose = "conversation"
    else:
        n_tokens = n_alone
        whose = "system" if 2 * (count(*last) - n_tools) < n_alone - n_tools else "prompt"
    subject, shorter = _SUBJECT_AND_FIX[whose]
    if whose == "tools":
        largest = max(request.tools, key=lambda tool: len(json.dumps(tool)))["function"]["name"]
        subject = f"The {len(request.tools):,} tools, of which {largest} is the largest, have"
    elif pictures and whose in ("prompt", "system"):
        shorter = "Use smaller or fewer pictures" if len(pictures) > 1 else "Use a smaller picture"
    message = f"{subject} {n_tokens:,} tokens and the context holds {n_ctx:,}."
    longer = or_longer(pair.info, n_tokens, lambda enough: f"set a longer context ({fix('model.ctx', enough)})")
    hint = f"{shorter}{longer}."
    raise ContextOverflowError(message, hint, whose=whose, n_tokens=n_tokens, n_prompt=n_prompt, n_ctx=n_ctx)


def or_longer(pair: PairInfo, n_tokens: int, way: Callable[[int], str]) -> str:
    """Return how to get a longer context, or why that is impossible, as the rest of a sentence.

    `way` returns how to get a context of a number of tokens.
    """
    enough = enough_for(pair, n_tokens)
    return f", or {way(enough)}" if enough else f"; {why_no_longer(pair)}"


def why_no_longer(pair: PairInfo) -> str:
    """Return the reason why a longer context would not help, as a clause."""
    limit = context_limit(pair)
    if limit.n_ctx > pair.n_ctx:
        return f"the longest context here, {limit.n_ctx:,}, would not do: {limit.reason}"
    return f"a longer context is not possible: {limit.reason}"
