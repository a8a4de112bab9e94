"""Where settings are looked for and typed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from app.core.printable import printable
from app.core.regular_file import with_line_feeds
from app.ui.widgets.filter_input import FilterInput, QuietInput
from app.ui.widgets.text_editor import TextEditor


class SettingFilter(FilterInput):
    """Text filters the settings; left and right change the chosen one."""

    BINDING_GROUP_TITLE = "Settings"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "tell('enter')", "change", id="settings.change", tooltip="Change the setting"),
        Binding("left", "tell('left')", "less", tooltip="Less, or the one before it", show=False),
        Binding("right", "tell('right')", "more", tooltip="More, or the next one", show=False),
    ]


class ValueInput(QuietInput):
    """A value in one line; what is typed first replaces it.

    Args:
        value: The value as it is.
        placeholder: What is to be typed where there is none.
    """

    BINDING_GROUP_TITLE = "Value of a setting"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "keep", id="value.keep", tooltip="Take this value"),
    ]

    def __init__(self, value: str, placeholder: str = "") -> None:
        super().__init__(placeholder)
        self.value = value
        self.select_on_focus = True


class TextInput(TextEditor):
    """A text of several lines; enter takes it."""

    BINDING_GROUP_TITLE = "Value of a setting"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "keep", id="text.keep", tooltip="Take this text"),
        Binding(
            "ctrl+j,shift+enter,alt+enter", "break_line", "new line", id="text.break_line", tooltip="Begin a new line"
        ),
        Binding("ctrl+underscore", "undo", "undo", key_display="ctrl+_", id="text.undo", show=False),
    ]

    @dataclass
    class Submitted(Message):
        """Enter was pressed."""

        value: str

    def action_submit(self) -> None:
        self.post_message(self.Submitted(self.text))

    def action_break_line(self) -> None:
        self.break_line()

    def on_paste(self, event: events.Paste) -> None:
        event.text = printable(with_line_feeds(event.text))
