"""Text inputs without frames.

Editing keys run in the order of typing, and invisible characters are accepted.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import Any, ClassVar

from textual import events
from textual.binding import Binding, BindingsMap, BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Static, TextArea

from app.core.printable import printable
from app.ui.actions import bindings
from app.ui.text import MARK

_INVISIBLE_CATEGORIES = ("Zs", "Cf")
"""Unicode categories of spaces of any width, and of joiners."""


async def _run_own_binding(widget: Input | TextArea, event: events.Key) -> None:
    """Run the binding of the focused widget immediately.

    Textual runs bindings when a key has bubbled up to the app, after later characters. It also ignores invisible
    characters: the Japanese space, the Persian non-joiner, the joiners of Indic scripts and of emoji.
    """
    character = event.character
    if character is not None and not event.is_printable and _is_invisible(character):
        widget.replace(character, *widget.selection)
        event.stop()
        event.prevent_default()
        return
    for binding in widget._bindings.key_to_bindings.get(event.key, ()):
        if not binding.priority and await widget.app.run_action(binding.action, widget):
            event.stop()
            event.prevent_default()
            return


def _is_invisible(character: str) -> bool:
    is_safe = len(character) == 1 and printable(character) == character
    return is_safe and unicodedata.category(character) in _INVISIBLE_CATEGORIES


def _copies(widget: Input | TextArea, action: str) -> bool:
    """Return whether an action of a text input does something: without a selection, the copy key interrupts."""
    return action != "copy" or bool(widget.selected_text)


class TextEditor(TextArea):
    """A text area without a frame."""

    def __init__(self, placeholder: str = "") -> None:
        super().__init__(
            compact=True, highlight_cursor_line=False, placeholder=placeholder, tab_behavior="focus", soft_wrap=True
        )
        self.cursor_blink = False

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return _copies(self, action) and super().check_action(action, parameters)

    async def on_key(self, event: events.Key) -> None:
        await _run_own_binding(self, event)

    def type_in(self, text: str) -> None:
        """Replace the selection, as if the text had been typed."""
        self._replace_via_keyboard(text, *self.selection)

    def break_line(self) -> None:
        """Begin a new line."""
        self.type_in("\n")
        self.scroll_cursor_visible()


class QuietInput(Input):
    """An input without a frame."""

    def __init__(self, placeholder: str, **more: Any) -> None:
        super().__init__(placeholder=placeholder, compact=True, select_on_focus=False, **more)
        self.cursor_blink = False

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return _copies(self, action) and super().check_action(action, parameters)

    async def on_key(self, event: events.Key) -> None:
        await _run_own_binding(self, event)

    def on_paste(self, event: events.Paste) -> None:
        event.text = printable(event.text).strip()


class FilterInput(QuietInput):
    """Input that filters the list of its screen; the screen moves in it, and handles the keys of the `actions`."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", show=False),
        Binding("down", "move(1)", show=False),
        Binding("pageup", "move(-1, True)", show=False),
        Binding("pagedown", "move(1, True)", show=False),
    ]

    def __init__(self, placeholder: str, *actions: str, **more: Any) -> None:
        super().__init__(placeholder, **more)
        self._bindings.key_to_bindings.update(BindingsMap(bindings(*actions)).key_to_bindings)

    @dataclass
    class Pressed(Message):
        """A key for the screen."""

        key: str

    @dataclass
    class Moved(Message):
        """A key moves up (-1) or down (1) in the list; it follows the messages about earlier typed characters."""

        direction: int
        by_page: bool = False

    def action_move(self, direction: int, by_page: bool = False) -> None:
        self.post_message(self.Moved(direction, by_page))

    def action_forward(self, key: str) -> None:
        self.post_message(self.Pressed(key))


class SearchLine(Horizontal):
    """The line above a list: a mark, the input that filters the list, and other widgets on its right."""

    SCOPED_CSS = False
    DEFAULT_CSS = """
    SearchLine { height: 1; padding-left: 1; margin-bottom: 1; }
    SearchLine > .mark { width: 2; color: $quiet; }
    .-low SearchLine, .-short SearchLine { margin-bottom: 0; }
    """

    def __init__(self, *widgets: Widget) -> None:
        super().__init__(Static(MARK, classes="mark"), *widgets)


class SourceInput(FilterInput):
    """Input for a model source, above the repositories of a search."""

    def accept_suggestion(self) -> bool:
        """Accept the suggestion at the cursor; return whether there is one."""
        if not (self.cursor_at_end and self._suggestion):
            return False
        self.action_cursor_right()
        return True
