"""What stands in a message as one line, and opens."""

from __future__ import annotations

from textual import events
from textual.containers import VerticalGroup
from textual.content import Content
from textual.reactive import reactive
from textual.widgets import Static


class Folding(VerticalGroup):
    """A line that says what there is; a click on it shows that, or hides it again.

    Args:
        opened: Whether it is shown at first.
    """

    open: reactive[bool] = reactive(False, toggle_class="-open")

    def __init__(self, *, opened: bool) -> None:
        super().__init__()
        self.summary = Static(classes="summary")
        self.open = opened

    def watch_open(self) -> None:
        if self.is_mounted:
            self.draw()

    def on_click(self, event: events.Click) -> None:
        event.stop()
        self.open = not self.open

    def say(self, what: str) -> None:
        """Say in the line what there is."""
        self.summary.update(Content(f"{'▾' if self.open else '▸'} {what}"))

    def draw(self) -> None:
        """Say what there is, and show it if it is open."""
        raise NotImplementedError
