"""Which of the chat's keys would do something."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.ui.chat.session import Phase
from app.ui.conversations.sidebar import Sidebar

if TYPE_CHECKING:
    from app.ui.screens.chat import ChatScreen


def is_possible(chat: ChatScreen, action: str) -> bool | None:
    """Whether an action would do something now.

    Returns:
        None if it would not and its key is shown all the same, dimmed; False hides it.
    """
    if action == "leave_task":
        return chat.tasks.has_task
    if action == "stop":
        return chat.session.phase is Phase.ANSWERING or chat.session.waiting is not None or None
    if action == "again":
        return chat.session.can_ask_again or None
    if action == "round":
        # Elsewhere the keys move through what is typed.
        return chat.tokens.on and chat.prompt.has_focus and not chat.prompt.text
    if action in ("page", "suspend"):
        # The sidebar has these keys for itself.
        return chat.focused is None or not any(isinstance(each, Sidebar) for each in chat.focused.ancestors)
    if action == "pairs":
        return chat.has_pairs
    if action in ("conversations", "toggle_sidebar"):
        return chat.keeper.keeps
    if action == "settings":
        return chat.own_settings.can_change
    return True
