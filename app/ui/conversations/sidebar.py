"""The list of conversations beside the chat."""

from __future__ import annotations

from collections.abc import Callable

from textual import events
from textual.containers import Vertical
from textual.content import Content
from textual.screen import Screen

from app.session.session import Session
from app.ui.key_names import key
from app.ui.keys import Word, Words


class Sidebar(Vertical):
    """Shows the list when the store is open, after the first frame.

    The list is for the mouse; a key opens the full-screen list.
    """

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._fills = False
        self._filled = False

    async def fill(self) -> None:
        """Show the conversations when the store is open and the sidebar is visible."""
        if self._fills or not self._session.library.is_open or not self.display:
            return
        from app.ui.conversations.picker import ConversationPicker

        self._fills = True
        self._words = Words()
        self._picker = ConversationPicker(self._session, f"search  {key('chat.open')}", select_at_once=True)
        await self.mount(self._picker, self._words)
        self._picker.search_input.can_focus = False
        self._filled = True
        self.screen.bindings_updated_signal.subscribe(self._words, self._on_bindings)
        self._on_bindings(self.screen)

    async def on_click(self, event: events.Click) -> None:
        """Open the full-screen list to search; it shows dates and sentences."""
        if self._filled and self._picker.search_input.region.contains_point(event.screen_offset):
            await self.run_action("screen.conversations")

    def update_list(self) -> None:
        """Show the current titles and the open conversation."""
        if self._filled and self.display:
            self._picker.update()

    async def on_show(self) -> None:
        await self.fill()
        self.update_list()

    def _on_bindings(self, screen: Screen[object]) -> None:
        picker = self._picker
        words: dict[str, Callable[[], object]] = {}
        row = picker.conversations.row
        # In a new conversation no row is marked.
        if row is not None and row.is_open:
            words = {"rename": picker.action_rename, "pin": picker.action_pin, "delete": picker.action_delete}
        if self._session.library.deleted:
            words["undo"] = picker.action_undelete
        self._words.say([Word(Content.styled(name, "$quiet"), clicked) for name, clicked in words.items()])
