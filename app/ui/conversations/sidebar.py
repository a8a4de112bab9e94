"""The list of conversations beside the chat."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.screen import Screen

from app.session.library import Library
from app.ui.key_names import bind
from app.ui.widgets.words import Word, Words


class Sidebar(Vertical):
    """Show the list once the store is open, after the first frame."""

    BINDING_GROUP_TITLE = "Conversations"
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("escape", "leave", "back", "sidebar.leave", "Back to the prompt"),
    ]

    class Left(Message):
        """The user returns to the prompt."""

    def __init__(self, library: Library) -> None:
        super().__init__()
        self._library = library
        self._fills = False
        self._filled = False

    async def fill(self) -> None:
        """Show the conversations once the store is open and the sidebar is visible."""
        if self._fills or not self._library.is_open or not self.display:
            return
        from app.ui.conversations.picker import ConversationPicker

        self._fills = True
        self._words = Words()
        self._picker = ConversationPicker(self._library, "search", select_at_once=True)
        await self.mount(self._picker, self._words)
        self._filled = True
        self.screen.bindings_updated_signal.subscribe(self._words, self._on_bindings)
        self._on_bindings(self.screen)

    def update_list(self) -> None:
        """Show the titles and the open conversation as they are now."""
        if self._filled and self.display:
            self._picker.update()

    @property
    def can_open(self) -> bool:
        """Return whether a conversation can be opened."""
        return self._filled and self._picker.conversations.row is not None

    def search(self) -> bool:
        """Focus the search line; return whether it is visible."""
        if self._filled and self.display:
            self._picker.search_input.focus()
        return self._filled and self.display

    def end_search(self) -> None:
        """Clear the search."""
        if self._filled:
            self._picker.search_input.clear()

    async def on_show(self) -> None:
        await self.fill()
        self.update_list()

    def action_leave(self) -> None:
        self.end_search()
        self.post_message(self.Left())

    def _on_bindings(self, screen: Screen[object]) -> None:
        """Show buttons for the mouse."""
        picker = self._picker
        words: dict[str, Callable[[], object]] = {}
        if picker.conversations.row is not None:
            words = {"rename": picker.action_rename, "pin": picker.action_pin, "delete": picker.action_delete}
        if self._library.can_undelete:
            words["undo"] = picker.action_undelete
        self._words.say([Word(Content.styled(name, "$quiet"), clicked) for name, clicked in words.items()])
