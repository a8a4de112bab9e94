"""The settings of the conversation that is going on, between all settings, the store and the screen."""

from __future__ import annotations

from collections.abc import Mapping

from app.core.errors import AppError, UsageError
from app.engine.types import AutoDraft
from app.session.keeper import Keeper
from app.settings.kinds import Value
from app.settings.live import LiveSettings
from app.ui.chat.bare_screen import BareChatScreen
from app.ui.chat.draft_switch import DraftSwitch
from app.ui.chat.session import Phase


class OwnSettings:
    """What answers here are asked with.

    Args:
        screen: The chat.
        keeper: Keeps what is the conversation's own.
        live: All settings; None leaves those that the chat was started with.
        draft_switch: Shows what answers are drafted by.
    """

    def __init__(
        self, screen: BareChatScreen, keeper: Keeper, live: LiveSettings | None, draft_switch: DraftSwitch
    ) -> None:
        self._screen = screen
        self._keeper = keeper
        self._live = live
        self._draft_switch = draft_switch

    @property
    def can_change(self) -> bool:
        return self._live is not None

    @property
    def system(self) -> str:
        """The system prompt that the next answer gets; "" for none."""
        return self._screen.session.settings.system or ""

    def changed(self) -> None:
        """Ask the next answer as the settings say now, and keep what is the conversation's own."""
        if self._live is not None:
            self._keeper.keep_settings(self._live.document)
            self._show()
            self._screen.refresh_bindings()

    def set(self, name: str, value: Value) -> None:
        """Change a setting for this conversation alone; None lets count what counts for all.

        Raises:
            UsageError: There are no settings to change.
        """
        if self._live is None:
            raise UsageError("There are no settings here.")
        self._live.set_own(name, value)
        self.changed()

    def draft(self, mode: str) -> str:
        """Draft the next answers or not, as "on", "off" and "auto" say; returns what that means, as a sentence.

        Raises:
            AppError: There is nothing to draft with, or no setting to change.
        """
        session = self._screen.session
        if mode == "auto" and not isinstance(session.settings.drafting, AutoDraft):
            self.set("draft.mode", "auto")
        if not session.can_draft:
            raise AppError(session.why_plain)
        return self._draft_switch.turn(mode != "off")

    async def enter(self, settings: Mapping[str, object], left: int | None) -> None:
        """Go on with a conversation's own settings; what in them does not count is said.

        Args:
            settings: Those of the one that goes on now.
            left: The conversation before; None where nothing was said in it.
        """
        if self._live is not None:
            for problem in self._live.enter(settings):
                await self._screen.messages.notice(f"This conversation's settings: {problem.text}")
            for problem in self._live.given_way:
                await self._screen.messages.notice(problem.text)
            self._show()

    def _show(self) -> None:
        session = self._screen.session
        session.settings_changed()
        if session.phase is not Phase.LOADING:
            self._draft_switch.show()
