"""What the chat's own keys can do about a failure."""

from __future__ import annotations

from app.errors import AppError, ContextOverflowError
from app.ui.key_names import key


def with_keys(error: AppError) -> AppError:
    """The failure with keys where a command has flags."""
    if not isinstance(error, ContextOverflowError):
        return error
    settings = key("chat.settings", "f4")
    if error.is_prompt:
        return AppError(error.message, f"Shorten it, or set a longer context (ctx) with {settings}.")
    new, choose, edit = key("chat.new", "ctrl+n"), key("chat.choose", "ctrl+up"), key("message.edit", "e")
    return AppError(
        error.message,
        f"{new} begins a new conversation, {settings} sets a longer context (ctx), "
        f"{choose} and {edit} change an earlier prompt.",
    )
