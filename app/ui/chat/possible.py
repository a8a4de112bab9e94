"""Which of the chat's keys would do something."""

from __future__ import annotations

from collections.abc import Collection

from app.session.keeper import Keeper
from app.ui.chat.bare_screen import BareChatScreen
from app.ui.chat.own_settings import OwnSettings
from app.ui.chat.session import Phase
from app.ui.chat.tasks import Tasks
from app.ui.chat.token_mode import TokenMode
from app.ui.conversations.sidebar import Sidebar


class Possible:
    """Looks before a key is shown, or does something.

    Args:
        screen: The chat.
        keeper: Has the conversations, if there are any.
        tasks: What is written that is no prompt.
        tokens: Whether rounds can be stepped through.
        own_settings: Whether there are settings to change.
    """

    def __init__(
        self, screen: BareChatScreen, keeper: Keeper, tasks: Tasks, tokens: TokenMode, own_settings: OwnSettings
    ) -> None:
        self._screen = screen
        self._keeper = keeper
        self._tasks = tasks
        self._tokens = tokens
        self._own_settings = own_settings

    def __call__(self, action: str) -> bool | None:
        """Whether an action would do something now.

        Returns:
            None if it would not and its key is shown all the same, dimmed; False hides it.
        """
        screen, session = self._screen, self._screen.session
        if action == "leave_task":
            return self._tasks.has_task
        if action == "stop":
            return session.is_on_its_way or None
        if action == "again":
            return session.can_ask_again or None
        if action == "round":
            # Elsewhere the keys move through what is typed.
            return self._tokens.on and screen.prompt.has_focus and not screen.prompt.text
        if action == "edit_last":
            # As in shells it goes to the end of what is typed, as a prompt or to find one; there it is free.
            prompt = screen.prompt
            is_free = prompt.cursor_at_end_of_line and prompt.selection.is_empty and not prompt.is_searching
            return prompt.has_focus and is_free and not self._tasks.has_task
        if action == "page":
            # The sidebar has this key for itself.
            return screen.focused is None or not any(isinstance(each, Sidebar) for each in screen.focused.ancestors)
        if action == "pairs":
            return screen.has_pairs
        if action in ("conversations", "toggle_sidebar"):
            return self._keeper.keeps
        if action == "settings":
            return self._own_settings.can_change
        return True

    @property
    def idle_keys(self) -> Collection[str]:
        """The ids of the keys that would only say why they do nothing."""
        screen, session = self._screen, self._screen.session
        idle = {"chat.drafting", "chat.compare"} if session.phase is Phase.UNLOADED or not session.can_draft else set()
        if not screen.sidebar.can_open:
            idle.add("found.open")
        return idle
