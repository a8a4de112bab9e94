"""Count the tokens of a long prompt while it is typed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from textual.timer import Timer

from app.core.errors import AppError
from app.ui.chat.base import ChatBase

COUNT_AFTER_S = 1.0
"""Seconds without a key after which a prompt is counted."""
_COUNTED_CHARS = 400
"""Length from which a prompt is counted, in characters; a prompt with a file always is."""


class PromptSize:
    """Count the tokens of the conversation with the typed prompt.

    Args:
        read: Returns the message for a typed text, with the files that it names; raises AppError.
    """

    def __init__(self, screen: ChatBase, read: Callable[[str], Awaitable[str]]) -> None:
        self._screen = screen
        self._read = read
        self._timer: Timer | None = None

    def typed(self) -> None:
        """Forget the last count; count again once nothing was typed for a while."""
        if self._timer is not None:
            self._timer.stop()
        if self._screen.session.forget_count():
            self._screen.hint.about("")
        self._timer = self._screen.set_timer(COUNT_AFTER_S, self._count)

    async def _count(self) -> None:
        text = self._screen.prompt.whole
        if len(text) < _COUNTED_CHARS and "@" not in text:
            return
        try:
            message = await self._read(text)
        except AppError:
            # The same error is shown when the prompt is sent.
            return
        self._screen.session.count(message)
