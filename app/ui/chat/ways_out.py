"""What the chat's own keys can do about a failure."""

from __future__ import annotations

from app.errors import AppError, ContextOverflowError

_SHORTER = "Shorten it, or set a longer context (ctx) with f4."
_ROOM = "ctrl+n begins a new conversation, f4 sets a longer context (ctx), ctrl+up and e change an earlier prompt."


def with_keys(error: AppError) -> AppError:
    """The failure with keys where a command has flags."""
    if isinstance(error, ContextOverflowError):
        return AppError(error.message, _SHORTER if error.is_prompt else _ROOM)
    return error
