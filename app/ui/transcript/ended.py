"""Text below an answer that ended early."""

from __future__ import annotations

from app.conversations.message import Ending, Role, repeated
from app.conversations.tree import Node, State
from app.core.errors import AppError
from app.engine.types import FinishReason
from app.ui.key_names import key

_REASONS = {
    FinishReason.CANCELLED: "stopped",
    FinishReason.LENGTH: "cut at the token limit",
    FinishReason.CONTEXT: "cut: the context is full",
}
_STATES = {
    State.STOPPED: "stopped",
    State.CUT: "cut before its end",
    State.FAILED: "failed before its end",
    State.WRITING: "another Tandem is writing it",
}


def in_words(ending: Ending, *, empty: bool, thought: bool = False) -> str:
    """Return why the model stopped writing.

    Args:
        ending: Why the answer has no more text.
        empty: True for an answer without text.
        thought: True for an answer with reasoning.

    Returns:
        One line with the keys that help; "" for a complete answer.
    """
    if ending.reason is None:
        return ""
    if ending.reason is FinishReason.REPETITION:
        return repeated(ending.repeats)
    reason = _REASONS.get(ending.reason, _empty_answer(thought=thought) if empty else "")
    if ending.reason is FinishReason.CONTEXT:
        new, settings, more = key("chat.new", "ctrl+n"), key("chat.settings", "f4"), key("chat.go_on", "ctrl+g")
        restart = f"{new} begins a new conversation"
        if ending.at_limit:
            return f"{reason}, and cannot be longer here; {restart}"
        return f"{reason}; {restart}, {settings} sets a longer context, with which {more} continues"
    return reason


def _empty_answer(*, thought: bool) -> str:
    return "the model thought, and gave no answer" if thought else "the model generated no text"


def in_vain(ending: Ending, *, thought: bool = False) -> str:
    """Return why a regenerated or continued answer was discarded."""
    if (error := as_error(ending)) is not None:
        return error.sentences
    return f"Nothing came of it: {in_words(ending, empty=True, thought=thought)}."


def remark_on(node: Node) -> str:
    """Return how an answer ended, or why a prompt has none; "" for a failure, which is shown as an error."""
    ending = node.ending
    if node.role is not Role.ASSISTANT:
        return in_words(ending, empty=True)
    empty, thought = not node.text.strip(), bool(node.reasoning.strip())
    if ending.failure is not None:
        return ""
    if node.state is State.COMPLETE:
        return _empty_answer(thought=thought) if empty else ""
    text = in_words(ending, empty=empty, thought=thought) if node.state is State.CUT else ""
    return text or _STATES.get(node.state, "")


def as_error(ending: Ending) -> AppError | None:
    """Return the error of a failed answer."""
    failure = ending.failure
    return AppError(failure.message, failure.hint) if failure is not None else None
