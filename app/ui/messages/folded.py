"""A text that a prompt includes, as one line that opens."""

from __future__ import annotations

from itertools import islice

from textual import events
from textual.app import ComposeResult
from textual.containers import VerticalGroup
from textual.content import Content
from textual.reactive import reactive
from textual.widgets import Static

from app.chat.attached import Attachment
from app.engine.text import printable
from app.ui.text import size

_MOST_LINES = 100
_MOST_COLUMNS = 400


class FoldedText(VerticalGroup):
    """Its name and size; a click opens the beginning of it.

    Args:
        attachment: What is included.
        opened: Whether it is open at first.
    """

    open: reactive[bool] = reactive(False, toggle_class="-open")

    def __init__(self, attachment: Attachment, *, opened: bool = False) -> None:
        super().__init__()
        self._attachment = attachment
        self.open = opened

    def compose(self) -> ComposeResult:
        yield Static(classes="summary")
        yield Static(classes="contents")

    def on_mount(self) -> None:
        self._draw()

    def watch_open(self) -> None:
        if self.is_mounted:
            self._draw()

    def on_click(self, event: events.Click) -> None:
        event.stop()
        self.open = not self.open

    def _draw(self) -> None:
        attachment = self._attachment
        about = f"  {size(attachment.size)}" if attachment.is_file else ""
        mark = "▾" if self.open else "▸"
        self.query_one(".summary", Static).update(Content(f"{mark} {printable(attachment.name)}{about}"))
        if self.open:
            self.query_one(".contents", Static).update(Content(self._beginning()))

    def _beginning(self) -> str:
        lines = iter(printable(self._attachment.text).split("\n"))
        shown = [line[:_MOST_COLUMNS] for line in islice(lines, _MOST_LINES)]
        rest = sum(1 for _ in lines)
        return "\n".join([*shown, *([f"… {rest:,} more line{'s' * (rest != 1)}"] if rest else [])])
