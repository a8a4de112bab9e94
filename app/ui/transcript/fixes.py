"""Errors with the keys of the chat that fix them."""

from __future__ import annotations

from app.core.errors import AppError, ContextOverflowError, DoesNotFitError
from app.models.pair_info import PairInfo
from app.ui.key_names import CHOOSE, key
from app.worker.context_overflow import or_longer


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
    if whose == "prompt":
        return "Shorten it, or include a part of its files"
    choose, edit = key("chat.choose", CHOOSE), key("message.edit", "e")
    return f"Start a new conversation ({key('chat.new', 'ctrl+n')}) or edit an earlier prompt ({choose}, then {edit})"
