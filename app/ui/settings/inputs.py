"""Where settings are looked for and typed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import TextArea

from app.engine.text import printable
from app.regular_file import with_line_feeds
from app.ui.widgets.editing import run_own_binding
from app.ui.widgets.filter_input import FilterInput, QuietInput


class SettingFilter(FilterInput):
    """Text filters the settings; left and right change the chosen one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "tell('enter')", "change", id="settings.change", tooltip="Change the setting"),
        Binding("left", "tell('left')", "less", show=False),
        Binding("right", "tell('right')", "more", show=False),
    ]


class ValueInput(QuietInput):
    """A value in one line; what is typed first replaces it.

    Args:
        value: The value as it is.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "keep", id="value.keep", tooltip="Take this value"),
    ]

    def __init__(self, value: str) -> None:
        super().__init__("")
        self.value = value
        self.select_on_focus = True


class TextInput(TextArea):
    """A text of several lines; enter takes it."""

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

    def __init__(self) -> None:
        super().__init__(compact=True, highlight_cursor_line=False, tab_behavior="focus", soft_wrap=True)
        self.cursor_blink = False

    def action_submit(self) -> None:
        self.post_message(self.Submitted(self.text))

    def action_break_line(self) -> None:
        start, end = self.selection
        self._replace_via_keyboard("\n", start, end)
        self.scroll_cursor_visible()

    async def on_key(self, event: events.Key) -> None:
        await run_own_binding(self, event)

    def on_paste(self, event: events.Paste) -> None:
        event.text = printable(with_line_feeds(event.text))
