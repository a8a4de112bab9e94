"""Whether the next answers are drafted, as keys and commands change it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.ui.chat.session import Phase

if TYPE_CHECKING:
    from app.ui.screens.chat import ChatScreen


class DraftSwitch:
    """For the chat screen.

    Args:
        screen: The chat.
    """

    def __init__(self, screen: ChatScreen) -> None:
        self._screen = screen
        self._session = screen.session

    def toggle(self) -> None:
        """The other way round, if there is anything to draft with."""
        session = self._session
        if not session.can_draft:
            self._screen.hint.say(session.why_plain)
            return
        told = self.turn(not session.drafting)
        if session.phase is Phase.ANSWERING:
            self._screen.hint.say(told)

    def turn(self, on: bool) -> str:
        """On or off; returns what that means, as a sentence."""
        self._session.drafting = on
        self.show()
        return f"The next answer is {'drafted' if on else 'decoded plainly'}."

    def show(self) -> None:
        """Say what the next answer is drafted by."""
        session = self._session
        self._screen.status.source(session.source, drafting=session.is_drafting, n_max=session.n_max)
