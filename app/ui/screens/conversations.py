"""The conversations: find one, go on with it, pin it, delete it."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import ActiveBinding, Binding, BindingType
from textual.containers import Horizontal
from textual.getters import query_one
from textual.screen import Screen
from textual.widgets import Footer, Input, Static

from app.engine.text import printable
from app.ui.keeping import Keeper
from app.ui.keys import in_order
from app.ui.widgets.conversation_list import ConversationList, Row
from app.ui.widgets.filter_input import FilterInput, SearchInput
from app.ui.widgets.header import HeaderLine
from app.ui.widgets.hint import Hint

_MOST = 1000
"""Conversations in the list; the search finds the others."""
_KEYS = ("found.open", "found.leave", "found.pin", "found.delete", "found.undelete", "app.quit")


class ConversationsScreen(Screen[int | None]):
    """Choose a conversation; the result is its id, or None to go on as before.

    Args:
        keeper: Has them.
    """

    AUTO_FOCUS = "SearchInput"
    CSS_PATH = "conversations.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "back", key_display="esc", id="found.leave", tooltip="Back to the chat"),
        Binding("ctrl+t", "pin", "pin", id="found.pin", tooltip="Keep it at the top, or no longer", priority=True),
        Binding("ctrl+x", "delete", "delete", id="found.delete", tooltip="Delete the conversation", priority=True),
        Binding("ctrl+z", "undelete", "undo", id="found.undelete", tooltip="Bring the deleted one back", priority=True),
    ]

    conversations = query_one(ConversationList)
    search_input = query_one(SearchInput)
    hint = query_one(Hint)

    def __init__(self, keeper: Keeper) -> None:
        super().__init__()
        self._keeper = keeper

    def compose(self) -> ComposeResult:
        yield HeaderLine("Conversations")
        with Horizontal(id="search"):
            yield Static("\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT}", classes="mark")
            yield SearchInput("type to search all that was said")
        yield ConversationList()
        yield Hint()
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        self._show(self._keeper.conversation)

    @on(Input.Changed)
    def _search(self) -> None:
        self.conversations.move(-_MOST)
        self._show()

    @on(FilterInput.Pressed)
    def _press(self, event: FilterInput.Pressed) -> None:
        page = self.conversations.page
        steps = {"up": -1, "down": 1, "pageup": -page, "pagedown": page}
        if event.key in steps:
            self.conversations.move(steps[event.key])
        else:
            self._take()

    @on(ConversationList.Taken)
    def _take(self) -> None:
        row = self.conversations.row
        if row is not None:
            self.dismiss(row.conversation)

    @on(ConversationList.Changed)
    def _on_changed(self) -> None:
        self.refresh_bindings()

    def action_leave(self) -> None:
        self.dismiss(None)

    # These keys overtake characters; what they act on must be what is in sight.

    def action_pin(self) -> None:
        row = self.conversations.row
        if row is not None:
            self._keeper.pin(row.conversation, not row.pinned)
            self._show(row.conversation)

    def action_delete(self) -> None:
        row = self.conversations.row
        if row is not None:
            self._keeper.delete(row.conversation)
            self._show()
            self.hint.say(f"{printable(row.title) or 'Untitled'} is deleted; ctrl+z brings it back.")

    def action_undelete(self) -> None:
        conversation = self._keeper.undelete()
        if conversation is not None:
            self.hint.forget()
            self._show(conversation)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Dim the keys that would do nothing."""
        if action in ("pin", "delete"):
            return self.conversations.row is not None or None
        if action == "undelete":
            return self._keeper.can_undelete or None
        return True

    @property
    def active_bindings(self) -> dict[str, ActiveBinding]:
        return in_order(super().active_bindings, _KEYS)

    def _show(self, chosen: int | None = None) -> None:
        query = self.search_input.value
        known = {summary.id: summary for summary in self._keeper.summaries()}
        current = self._keeper.conversation
        if query.strip():
            rows = [
                Row(
                    hit.conversation,
                    hit.title,
                    known[hit.conversation].updated,
                    known[hit.conversation].pinned,
                    hit.conversation == current,
                    hit.excerpt,
                    hit.message is None,
                )
                for hit in self._keeper.search(query)
                if hit.conversation in known
            ]
            empty = "Nothing is found."
        else:
            rows = [
                Row(one.id, one.title, one.updated, one.pinned, one.id == current)
                for one in list(known.values())[:_MOST]
            ]
            empty = "There are no conversations yet."
        self.conversations.show(rows, empty, chosen)
        self.refresh_bindings()
