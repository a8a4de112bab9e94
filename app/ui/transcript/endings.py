"""Why a message ended, with the keys of the chat."""

from __future__ import annotations

from app.conversations.message import Ending, Role, repeated
from app.conversations.tree import Node, State
from app.core.errors import AppError, ContextOverflowError, DoesNotFitError
from app.engine.types import FinishReason
from app.models.pair_info import PairInfo, or_longer
from app.ui.key_names import CHOOSE, key

_REASON_TEXTS = {
    FinishReason.CANCELLED: "stopped",
    FinishReason.LENGTH: "cut at the token limit",
    FinishReason.CONTEXT: "cut: the context is full",
}
_STATE_TEXTS = {
    State.STOPPED: "stopped",
    State.CUT: "cut before its end",
    State.FAILED: "failed before its end",
    State.WRITING: "another Tandem is writing it",
}


def in_words(ending: Ending, *, empty: bool, thought: bool = False) -> str | None:
    """Return why the model stopped writing, with the keys that help; None for a complete answer."""
    if ending.reason is None:
        return None
    if ending.reason is FinishReason.REPETITION:
        return repeated(ending.repeats)
    reason = _REASON_TEXTS.get(ending.reason, _empty_answer(thought=thought) if empty else None)
    if ending.reason is FinishReason.CONTEXT:
        new, settings, more = key("chat.new", "ctrl+n"), key("chat.settings", "f4"), key("chat.go_on", "ctrl+g")
        restart = f"{new} starts a new conversation"
        if ending.at_limit:
            return f"{reason}, and it cannot be longer here; {restart}"
        return f"{reason}; {restart}, or set a longer context in {settings}, then {more} continues"
    return reason


def _empty_answer(*, thought: bool) -> str:
    return "the model gave no answer after its reasoning" if thought else "the model generated no text"


def in_vain(ending: Ending, pair: PairInfo | None, *, thought: bool = False) -> str:
    """Return why a regenerated or continued answer was discarded."""
    if ending.failure is not None:
        return in_keys(ending.failure, pair).sentences
    return f"No new text: {in_words(ending, empty=True, thought=thought) or _empty_answer(thought=thought)}."


def remark_on(node: Node) -> str | None:
    """Return how an answer ended, or why a prompt has none; None for a failure, which is shown as an error."""
    ending = node.ending
    if node.role is not Role.ASSISTANT:
        return in_words(ending, empty=True)
    empty, thought = not node.text.strip(), bool(node.reasoning.strip())
    if ending.failure is not None:
        return None
    if node.state is State.COMPLETE:
        return _empty_answer(thought=thought) if empty and not node.calls else None
    text = in_words(ending, empty=empty, thought=thought) if node.state is State.CUT else None
    return text or _STATE_TEXTS.get(node.state)


def in_keys(error: AppError, pair: PairInfo | None) -> AppError:
    """Return an error whose fix names keys; `pair` is the loaded pair."""
    match error:
        case DoesNotFitError():
            other = f"{key('chat.pairs', 'f6')} chooses another pair."
            return AppError(error.message, f"Free some memory and send the prompt again; {other}")
        case ContextOverflowError():
            return AppError(error.message, f"{_shorter(error.whose)}{_longer(error, pair)}.")
    return error


def _longer(error: ContextOverflowError, pair: PairInfo | None) -> str:
    settings = key("chat.settings", "f4")
    if pair is None or not error.n_tokens:
        return f", or set a longer context ({settings}, ctx)"
    return or_longer(pair, error.n_tokens, lambda enough: f"set a longer context ({settings}, ctx {enough})")


def _shorter(whose: str) -> str:
    if whose == "system":
        return f"Shorten the system prompt ({key('chat.settings', 'f4')} or /system)"
    if whose == "tools":
        return "Switch servers off (/tools)"
    if whose == "pictures":
        return "Use smaller or fewer pictures"
    if whose == "prompt":
        return "Shorten it, or include a part of its files (@file.pdf:3-7)"
    choose, edit = key("chat.choose", CHOOSE), key("message.edit", "enter")
    return f"Start a new conversation ({key('chat.new', 'ctrl+n')}) or edit an earlier prompt ({choose}, then {edit})"
