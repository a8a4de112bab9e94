"""Settings of the open conversation, and drafting on or off, as keys and commands change them."""

from __future__ import annotations

from app.core.errors import AppError, UsageError
from app.engine.types import AutoDraft
from app.settings.kinds import Value
from app.ui.chat.base import ChatBase
from app.ui.chat.renderer import Renderer


class SettingChanges:
    """Changes how the next answers are asked for.

    Args:
        screen: The chat.
        renderer: Draws what changes.
    """

    def __init__(self, screen: ChatBase, renderer: Renderer) -> None:
        self._screen = screen
        self._session = screen.session
        self._renderer = renderer

    @property
    def system(self) -> str:
        """The system prompt of the next answer; "" for none."""
        return self._session.settings.system or ""

    def changed(self) -> None:
        """Use the settings as they are now."""
        self._session.settings_changed()
        self._screen.call_later(self._renderer.render)

    def set(self, name: str, value: Value) -> None:
        """Change a setting for this conversation alone; None removes it.

        Raises:
            UsageError: There are no settings to change.
        """
        if not self._session.can_set:
            raise UsageError("There are no settings here.")
        self._session.set_setting(name, value)
        self._screen.call_later(self._renderer.render)

    def toggle_drafting(self) -> None:
        """Turn drafting on or off, or say why not."""
        drafting = self._session.drafting
        self._screen.hint.say(self._turn(not drafting.is_on) if drafting.is_available else self._why_no_draft)

    def draft(self, mode: str) -> str:
        """Draft the next answers for "on" and "auto", not for "off"; return the effect as a sentence.

        Raises:
            AppError: There is nothing to draft with, or no setting to change.
        """
        if mode == "auto" and not isinstance(self._session.settings.drafting, AutoDraft):
            self.set("draft.mode", "auto")
        if not self._session.drafting.is_available:
            raise AppError(self._why_no_draft)
        return self._turn(mode != "off")

    @property
    def _why_no_draft(self) -> str:
        if self._session.can_set and self._session.settings.drafting is None:
            return "Drafting is off in the settings; /draft auto turns it on."
        return self._session.drafting.reason

    def _turn(self, on: bool) -> str:
        self._session.set_drafting(on)
        self._screen.call_later(self._renderer.render)
        which = "This answer continues" if self._session.can_switch_running else "The next answer is written"
        return f"{which} {'with' if on else 'without'} drafting."
