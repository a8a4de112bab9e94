"""The conversations screen: find, open, rename, pin and delete conversations."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.getters import query_one

from app.session.library import Library
from app.ui.base_screen import SubScreen
from app.ui.conversations.list import ConversationList
from app.ui.conversations.picker import ConversationPicker
from app.ui.keys import KeyBar
from app.ui.widgets.header import HeaderLine
from app.ui.widgets.hint import Hint


class ConversationsScreen(SubScreen[ConversationPicker.Chosen | None]):
    """Choose a conversation; the result is what was chosen, or None to go on as before.

    Args:
        library: Has them.
    """

    AUTO_FOCUS = "SearchInput"
    CSS_PATH = "screen.tcss"
    BINDING_GROUP_TITLE = "Conversations"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "back", key_display="esc", id="found.leave", tooltip="Back to the chat"),
    ]
    SHOWN_FIRST = (
        "title.take",
        "title.leave",
        "found.open",
        "found.leave",
        "found.rename",
        "found.pin",
        "found.delete",
        "found.undelete",
        "app.quit",
    )

    conversations = query_one(ConversationList)
    hint = query_one(Hint)

    def __init__(self, library: Library) -> None:
        super().__init__()
        self._library = library

    def compose(self) -> ComposeResult:
        yield HeaderLine("Conversations")
        yield ConversationPicker(self._library, "type to search all messages")
        yield Hint()
        yield KeyBar()

    @on(ConversationPicker.Chosen)
    def _take(self, event: ConversationPicker.Chosen) -> None:
        self.dismiss(event)

    @on(Hint.Requested)
    def _hint(self, event: Hint.Requested) -> None:
        self.hint.say(event.text)

    @property
    def idle_keys(self) -> Collection[str]:
        return ("found.open",) if self.conversations.row is None else ()

    def action_leave(self) -> None:
        self.dismiss(None)
