"""Where a conversation gets another title."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Input

from app.ui.widgets.filter_input import QuietInput


class TitleInput(QuietInput):
    """One line; Enter takes it, Esc and leaving it do not."""

    BINDING_GROUP_TITLE = "Title of a conversation"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "rename", id="title.take", tooltip="Take this title"),
        Binding("escape", "leave", "cancel", key_display="esc", id="title.leave", tooltip="Keep the old title"),
    ]

    @dataclass
    class Ended(Message):
        """The title was given; None keeps the old one."""

        title: str | None

    def __init__(self) -> None:
        super().__init__("empty: from the first prompt")

    @on(Input.Changed)
    def _keep_to_ourselves(self, event: Input.Changed) -> None:
        event.stop()

    @on(Input.Submitted)
    def _take(self, event: Input.Submitted) -> None:
        event.stop()
        self.post_message(self.Ended(self.value))

    def action_leave(self) -> None:
        self.post_message(self.Ended(None))

    def on_blur(self) -> None:
        # Whoever looks something up in another window goes on with it; see `app.ui.base_screen`.
        if self.app.app_focus and self.screen.focused is not self:
            self.post_message(self.Ended(None))
