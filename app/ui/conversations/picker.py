"""The list of conversations with its search line, in the sidebar and on its own screen."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.getters import query_one
from textual.message import Message
from textual.widgets import Input

from app.conversations.search import Hit
from app.core.printable import printable
from app.session.session import Session
from app.ui.actions import bindings
from app.ui.base_screen import SubScreen
from app.ui.conversations.list import ConversationList, ConversationRow
from app.ui.keys import active_key
from app.ui.widgets.hint import Hint
from app.ui.widgets.inputs import FilterInput, QuietInput, SearchLine

_MAX_LISTED = 1000
"""Number of listed conversations; the search finds the others."""


class TitleInput(QuietInput):
    """Edits a title; Enter saves it, Esc and leaving do not."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("title.")

    class Left(Message):
        """The old title stays."""

    def action_leave(self) -> None:
        self.post_message(self.Left())

    def on_blur(self) -> None:
        # A user who switches to another window and back continues; see `app.ui.base_screen`.
        if self.app.app_focus and self.screen.focused is not self:
            self.action_leave()


class ConversationPicker(Vertical):
    """Finds, opens, renames, pins and deletes conversations. With `select_at_once` the first click opens one."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("found.pin", "found.rename", "found.delete", "found.undelete")

    conversations = query_one(ConversationList)
    search_input = query_one(FilterInput)
    title_input = query_one(TitleInput)

    @dataclass
    class Chosen(Message):
        """A conversation was chosen, with the found message and the search words."""

        conversation: int
        message: int | None = None
        words: tuple[str, ...] = ()

    class DeletedOrRestored(Message):
        """Conversations were deleted or restored."""

    def __init__(self, session: Session, placeholder: str, words: str = "", *, select_at_once: bool = False) -> None:
        super().__init__()
        self._words = words
        self._session, self._library = session, session.library
        self._placeholder = placeholder
        self._select_at_once = select_at_once
        self._renamed: int | None = None

    def compose(self) -> ComposeResult:
        yield SearchLine(FilterInput(self._placeholder, "found.open"))
        yield TitleInput("empty: from the first prompt")
        yield ConversationList(select_at_once=self._select_at_once)

    def on_mount(self) -> None:
        self.search_input.value = self._words
        self.show(self._session.conversation.number)

    @on(events.DescendantFocus)
    @on(events.DescendantBlur)
    def _redraw(self) -> None:
        self.conversations.redraw()

    # Actions

    @on(Input.Changed, "FilterInput")
    def _search(self) -> None:
        self.conversations.choose(0)
        self.show()

    @on(FilterInput.Pressed)
    @on(ConversationList.Selected)
    def _take(self) -> None:
        row = self.conversations.row
        if row is not None:
            message, words = (row.hit.message, tuple(self.search_input.value.split())) if row.hit else (None, ())
            self.post_message(self.Chosen(row.summary.id, message, words))

    # These keys act on the displayed row.

    def action_pin(self) -> None:
        row = self.conversations.row
        if row is not None:
            self._library.pin(row.summary.id, not row.summary.pinned)
            self.show(row.summary.id)

    def action_rename(self) -> None:
        row = self.conversations.row
        if row is not None:
            self._renamed = row.summary.id
            self.title_input.value = row.summary.title
            self.add_class("-renames")
            self.title_input.focus()

    @on(Input.Submitted)
    @on(TitleInput.Left)
    def _end_renaming(self, event: Input.Submitted | TitleInput.Left) -> None:
        renamed, self._renamed = self._renamed, None
        if renamed is None:
            return
        self.remove_class("-renames")
        if self.title_input.has_focus:
            self.search_input.focus()
        if isinstance(event, Input.Submitted):
            self._library.rename(renamed, event.value)
            self.show(renamed)

    def action_delete(self) -> None:
        row = self.conversations.row
        if row is not None:
            self._library.delete(row.summary.id)
            self.show()
            title = f'"{printable(row.summary.title)}"' if row.summary.title else "it"
            # In the sidebar the list has no keys.
            back = active_key(self.screen, "found.undelete") or "undo below the list"
            self.post_message(Hint.Requested(f"Deleted {title}; {back} restores it."))
            self.post_message(self.DeletedOrRestored())

    def action_undelete(self) -> None:
        conversation = self._library.undelete()
        if conversation is not None:
            self.post_message(Hint.Requested(""))
            self.show(conversation)
            self.post_message(self.DeletedOrRestored())

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Dim the keys without effect; disable them while a title is edited."""
        if self.has_class("-renames"):
            return False
        if action in ("pin", "rename", "delete"):
            return self.conversations.row is not None or None
        if action == "undelete":
            return bool(self._library.deleted) or None
        return True

    # Rows

    def update(self) -> None:
        """Show changes; keep the chosen row of a search."""
        row = self.conversations.row if self.has_focus_within else None
        self.show(row.summary.id if row is not None else self._session.conversation.number)

    def show(self, chosen: int | None = None) -> None:
        """Show the found conversations, with one of them chosen; None keeps the index."""
        query, current, marks = self.search_input.value, self._session.conversation.number, self._session.marks
        known = {summary.id: summary for summary in self._library.summaries()}
        found: dict[int, Hit | None] = dict.fromkeys(list(known)[:_MAX_LISTED])
        if query.strip():
            found = {hit.conversation: hit for hit in self._library.search(query) if hit.conversation in known}
        rows = [ConversationRow(known[one], one == current, hit, marks.get(one)) for one, hit in found.items()]
        ids = [row.summary.id for row in rows]
        index = ids.index(chosen) if chosen in ids else self.conversations.index
        self.conversations.show_rows(rows, index, "Nothing found." if query.strip() else "No conversations yet.")


class ConversationsScreen(SubScreen[ConversationPicker.Chosen | None]):
    """Choose a conversation; the result is the choice, or None to continue unchanged."""

    AUTO_FOCUS = "FilterInput"
    CSS_PATH = "screen.tcss"
    HEADING = "Conversations"
    BINDINGS: ClassVar[list[BindingType]] = bindings("found.leave")

    conversations = query_one(ConversationList)

    def __init__(self, session: Session, words: str = "") -> None:
        super().__init__()
        self._picker = ConversationPicker(session, "type to search all messages", words)

    def compose_body(self) -> ComposeResult:
        yield self._picker

    @on(ConversationPicker.Chosen)
    def _take(self, event: ConversationPicker.Chosen) -> None:
        self.dismiss(event)

    @property
    def idle_keys(self) -> Collection[str]:
        return ("found.open",) if self.conversations.row is None else ()
