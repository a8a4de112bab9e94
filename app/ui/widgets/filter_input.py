"""Input that filters a list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual import events, on
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.suggester import Suggester
from textual.widgets import Input

from app.core.printable import printable
from app.ui.widgets.editing import run_own_binding


class QuietInput(Input):
    """One line to write into, without a frame."""

    def __init__(
        self,
        placeholder: str,
        id: str | None = None,  # noqa: A002 - Textual calls it so
        *,
        suggester: Suggester | None = None,
    ) -> None:
        super().__init__(placeholder=placeholder, compact=True, select_on_focus=False, suggester=suggester, id=id)
        self.cursor_blink = False

    async def on_key(self, event: events.Key) -> None:
        await run_own_binding(self, event)

    def on_paste(self, event: events.Paste) -> None:
        event.text = printable(event.text).strip()


class SourceInput(QuietInput):
    """Input for a model source."""

    BINDING_GROUP_TITLE = "Another pair"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "go on", id="line.submit", tooltip="Look at the models; again, to bring them"),
    ]

    def accept_suggestion(self) -> bool:
        """Accept the suggestion at the cursor; return whether there was one."""
        if not (self.cursor_at_end and self._suggestion):
            return False
        self.action_cursor_right()
        return True


class FilterInput(QuietInput):
    """Text filters; the other keys are told to the screen.

    Bindings overtake characters, so a key waits in line behind those typed before it.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "tell('up')", show=False),
        Binding("down", "tell('down')", show=False),
        Binding("pageup", "tell('pageup')", show=False),
        Binding("pagedown", "tell('pagedown')", show=False),
    ]

    @dataclass
    class _InLine(Message, bubble=False):
        key: str

    @dataclass
    class Pressed(Message):
        """A key for the list."""

        key: str

        def lines(self, page: int) -> int:
            """How many lines further down it chooses, given those of a page; 0 for a key that does something else."""
            return {"up": -1, "down": 1, "pageup": -page, "pagedown": page}.get(self.key, 0)

    def action_tell(self, key: str) -> None:
        self.post_message(self._InLine(key))

    @on(_InLine)
    def _tell(self, event: _InLine) -> None:
        self.post_message(self.Pressed(event.key))


class PairFilter(FilterInput):
    """The same, for pairs."""

    BINDING_GROUP_TITLE = "Pairs"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "tell('enter')", "choose", id="pairs.choose", tooltip="Set the pair up, or chat with it"),
    ]


class SearchInput(FilterInput):
    """The same, for conversations."""

    BINDING_GROUP_TITLE = "Conversations"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "tell('enter')", "open", id="found.open", tooltip="Go on with this conversation"),
    ]
