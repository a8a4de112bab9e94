"""Text below an answer that ended early."""

from __future__ import annotations

from app.conversations.ending import Ending, repeated
from app.conversations.tree import State
from app.core.errors import AppError
from app.engine.types import FinishReason
from app.ui.key_names import key

_WORDS = {
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
_NOTHING = "the model sent nothing"
_ONLY_THOUGHT = "the model thought, and gave no answer"


def in_words(ending: Ending, *, empty: bool, thought: bool = False) -> str:
    """Return why the model stopped writing.

    Args:
        ending: How it ended.
        empty: Whether nothing was said.
        thought: Whether there is reasoning.

    Returns:
        One line with the keys that help; "" if there is nothing to remark.
    """
    if ending.reason is None:
        return ""
    said = _WORDS.get(ending.reason, _of_nothing(thought=thought) if empty else "")
    if ending.reason is FinishReason.REPETITION:
        return repeated(ending.repeats)
    if ending.reason is FinishReason.CONTEXT:
        new, settings, more = key("chat.new", "ctrl+n"), key("chat.settings", "f4"), key("chat.go_on", "ctrl+g")
        anew = f"{new} begins a new conversation"
        if ending.at_limit:
            return f"{said}, and cannot be longer here; {anew}"
        return f"{said}; {anew}, {settings} sets a longer context, with which {more} continues"
    return said


def _of_nothing(*, thought: bool) -> str:
    return _ONLY_THOUGHT if thought else _NOTHING


def in_vain(ending: Ending, *, thought: bool = False) -> str:
    """Return why a regenerated or continued answer was discarded."""
    if (error := as_error(ending)) is not None:
        return error.sentences
    return f"Nothing came of it: {in_words(ending, empty=True, thought=thought)}."


def kept_in_words(state: State, ending: Ending, *, empty: bool, thought: bool = False) -> str:
    """Return how a stored answer ended; "" for a failure, which is shown as an error."""
    if ending.failure is not None:
        return ""
    if state is State.COMPLETE:
        return _of_nothing(thought=thought) if empty else ""
    return (in_words(ending, empty=empty, thought=thought) if state is State.CUT else "") or _STATES.get(state, "")


def as_error(ending: Ending) -> AppError | None:
    """Return the error of a failed answer."""
    failure = ending.failure
    return AppError(failure.message, failure.hint) if failure is not None else None


def is_final(ending: Ending) -> bool:
    """Return whether the answer cannot be continued, though it is not complete."""
    return ending.reason is FinishReason.CONTEXT
