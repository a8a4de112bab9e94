"""The ways out of a pair that does not fit: one key or one click takes one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from textual import events
from textual.app import ComposeResult
from textual.containers import HorizontalGroup, VerticalGroup
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Static

from app.core.errors import AppError
from app.core.printable import printable
from app.ui.models.setups import Choice
from app.ui.models.ways import Way
from app.ui.widgets.hint import Hint

_KEYS = "123456789"


class WayLine(HorizontalGroup):
    """One way out.

    Args:
        way: What it is.
        key: The key that takes it; "" where it cannot be taken here.
    """

    def __init__(self, way: Way, key: str) -> None:
        super().__init__(classes="-takeable" if key else "")
        self._way = way
        self._key = key

    def compose(self) -> ComposeResult:
        way = self._way
        yield Static(self._key, classes="key")
        text = f"{printable(way.what)}, {way.gain}"
        more = f"\n{printable(way.command)}" if way.command else ""
        yield Static(Content.assemble(text, (f"\n{printable(way.cost)}{more}", "$quiet")), classes="way")

    def on_click(self, event: events.Click) -> None:
        event.stop()
        if self._way.take is not None:
            take(self, self._way, self._way.take)


class WayList(VerticalGroup, can_focus=True):
    """All of them. While it has the focus, digits take; whatever else is typed goes to the prompt."""

    @dataclass
    class Taken(Message):
        """A way was taken."""

        way: Way
        choice: Choice

    @dataclass
    class Left(Message):
        """The user writes on; `text` was typed."""

        text: str

    def __init__(self, ways: Sequence[Way]) -> None:
        super().__init__()
        self._ways = ways
        takeable = [(way, way.take) for way in ways if way.take is not None]
        self._choices = dict(zip(_KEYS, takeable, strict=False))

    def compose(self) -> ComposeResult:
        keys = iter(self._choices)
        for way in self._ways:
            yield WayLine(way, next(keys, "") if way.take is not None else "")
        if n := len(self._choices):
            which = {1: "1", 2: "1 or 2"}.get(n, f"1 to {n}")
            yield Static(f"{which}, or a click, takes one; esc goes back to the prompt", classes="keys")

    def on_key(self, event: events.Key) -> None:
        if event.key in self._choices:
            take(self, *self._choices[event.key])
        elif event.key == "escape":
            self.post_message(self.Left(""))
        elif event.character is not None and event.is_printable:
            self.post_message(self.Left(event.character))
        else:
            return
        event.stop()
        event.prevent_default()


def take(widget: Widget, way: Way, choose: Callable[[], Choice]) -> None:
    """Take a way; one that leads nowhere any more is said."""
    try:
        widget.post_message(WayList.Taken(way, choose()))
    except AppError as error:
        widget.post_message(Hint.Wanted(error.sentences))
