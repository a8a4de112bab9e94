"""Errors with the keys that fix them."""

from __future__ import annotations

from app.core.errors import AppError, ContextOverflowError
from app.models.pair_info import PairInfo
from app.session.chat_settings import Comparable
from app.ui.key_names import CHOOSE, key
from app.ui.models.fit_options import NoRoomError
from app.worker.overflow import or_longer


def with_keys(error: AppError, pair: PairInfo | None) -> AppError:
    """Return an error with keys in place of a command's flags.

    Args:
        error: What failed.
        pair: The loaded pair; None without one.
    """
    if not isinstance(error, ContextOverflowError):
        return error
    settings = key("chat.settings", "f4")
    if pair is None or not error.n_tokens:
        longer = f", or {settings} sets a longer context (ctx)"
    else:
        longer = or_longer(pair, error.n_tokens, lambda enough: f"set a longer context: {settings}, ctx {enough}")
    return AppError(error.message, f"{_shorter(error.whose)}{longer}.")


def _shorter(whose: str) -> str:
    """Return how to shorten the longest part of a prompt."""
    if whose == "system":
        return f"Shorten the system prompt ({key('chat.settings', 'f4')} or /system)"
    if whose == "prompt":
        return "Shorten it, or include a part of its files"
    choose, edit = key("chat.choose", CHOOSE), key("message.edit", "e")
    return f"{key('chat.new', 'ctrl+n')} begins a new conversation, {choose} and {edit} change an earlier prompt"


def in_comparison(error: AppError, what: Comparable) -> AppError:
    """Return the error of a comparison with the keys that fix it."""
    if not isinstance(error, NoRoomError):
        return with_keys(error, what.pair)
    # The options are applied in the chat.
    once, pairs = key("compare.once", "m"), key("chat.pairs", "f6")
    return AppError(error.message, f"{once} tries again when memory is free; {pairs} in the chat chooses another pair.")
