"""Compact a full context: choose the earlier messages to leave out, and request a summary of them."""

from __future__ import annotations

from collections.abc import Sequence

from app.conversations.message import Role
from app.conversations.tree import Node, as_messages
from app.core.errors import AppError, ContextOverflowError
from app.session.chat_settings import ChatSettings, answer_request, shortened
from app.worker.request import AnswerRequest

_SUMMARY_INSTRUCTION = (
    "Stop here. List the facts of this conversation in short sentences: what I said about myself, what I asked for, "
    "and what you answered. Keep names and numbers."
)
"""Best of four wordings: with it, a model of 1.5 billion parameters kept every fact and the cached prefix."""
_LONGEST_SUMMARY = 512
"""Most tokens of a summary."""
_SOLVED_BY_COMPACTION = ("conversation", "answer")
"""Values of `ContextOverflowError.whose` for which leaving out earlier messages helps."""


def n_kept_after(error: AppError, before: Sequence[Node], written: int, n_ctx: int) -> int | None:
    """Return how many of the last messages before a prompt stay; None if leaving out the others does not help.

    They fill about half of the context. Only an error about a full context compacts it; `written` counts the characters
    of the prompt and of the answer so far.
    """
    if not isinstance(error, ContextOverflowError) or error.whose not in _SOLVED_BY_COMPACTION:
        return None
    lengths = [len(node.text) for node in before]
    left = n_ctx // 2 * (sum(lengths) + written) / max(1, error.n_tokens) - written
    n_kept = 0
    for n, node in enumerate(reversed(before), start=1):
        left -= lengths[-n]
        if left < 0:
            break
        # Whole turns.
        if node.role is Role.USER:
            n_kept = n
    return n_kept if n_kept < len(before) else None


def summary_request(settings: ChatSettings, left_out: Sequence[Node], summary: str, name: str) -> AnswerRequest:
    """Return the request for a summary of `left_out` and of an earlier summary.

    It begins like the conversation, so the KV cache is reused.
    """
    request = answer_request(settings, _SUMMARY_INSTRUCTION, as_messages(left_out), summary, name)
    return shortened(request, _LONGEST_SUMMARY)
