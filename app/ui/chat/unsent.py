"""What was typed and not sent, kept while it waits."""

from __future__ import annotations

from app.conversations.attached import joined
from app.session.keeper import Keeper
from app.ui.chat.bare_screen import BareChatScreen
from app.ui.chat.tasks import Tasks
from app.ui.commands.table import COMMANDS

KEPT_AFTER_S = 1.0
"""What is typed is kept after so long."""


class Unsent:
    """For the chat screen.

    Args:
        screen: The chat.
        keeper: Keeps it with the conversation.
        tasks: What is written that is no prompt.
    """

    def __init__(self, screen: BareChatScreen, keeper: Keeper, tasks: Tasks) -> None:
        self._screen = screen
        self._keeper = keeper
        self._tasks = tasks
        self._waits = False

    @property
    def text(self) -> str:
        """What was typed and has not been put to the model."""
        session, written = self._screen.session, self._tasks.unsent
        typed = self._screen.prompt.whole if written is None else written
        sent = session.reading if session.waiting is None else COMMANDS.as_typed(session.waiting)
        return joined(sent, typed) if sent else typed

    def changed(self) -> None:
        """Something was typed."""
        if not self._waits:
            self._waits = True
            self._screen.set_timer(KEPT_AFTER_S, self.keep)

    def keep(self) -> None:
        """Keep it as it is now."""
        self._waits = False
        self._keeper.draft(self.text)
