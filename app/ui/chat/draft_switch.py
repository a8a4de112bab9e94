"""Whether answers are drafted, as keys and commands change it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.ui.chat.bare_screen import BareChatScreen

if TYPE_CHECKING:
    from app.session.engine import Engine


class DraftSwitch:
    """For the chat screen.

    Args:
        screen: The chat.
        engine: Who drafts.
    """

    def __init__(self, screen: BareChatScreen, engine: Engine) -> None:
        self._screen = screen
        self._engine = engine
        self._session = screen.session

    def toggle(self) -> None:
        """The other way round, if there is anything to draft with."""
        session = self._session
        if not session.can_draft:
            self._screen.hint.say(session.why_plain)
            return
        self._screen.hint.say(self.turn(not session.drafting))

    def turn(self, on: bool) -> str:
        """On or off; returns what that means, as a sentence."""
        self._session.drafting = on
        self.show()
        return self._session.whether_drafted

    def show(self) -> None:
        """Say what answers are drafted by, and let the engine do so; also in the middle of one."""
        self._engine.draft(self._session.is_drafting)
        self.name_source()

    def name_source(self) -> None:
        """Say what answers are drafted by."""
        session = self._session
        self._screen.status.source(session.source, drafting=session.is_drafting, n_max=session.n_max)
