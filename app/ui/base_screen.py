"""Base classes of all screens: focus that is never lost, and screens that close only once."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, TypeVar

from textual import events, on
from textual.app import ComposeResult
from textual.await_complete import AwaitComplete
from textual.binding import ActiveBinding
from textual.geometry import Offset
from textual.getters import query_one
from textual.screen import Screen
from textual.widget import Widget

from app.ui.keys import KeyBar, in_order
from app.ui.terminal.compositor import LineCompositor
from app.ui.widgets.choice_list import ChoiceList
from app.ui.widgets.header import HeaderLine
from app.ui.widgets.hint import Hint
from app.ui.widgets.inputs import FilterInput

_T = TypeVar("_T")


class BaseScreen(Screen[_T]):
    """A screen that restores lost focus and ignores clicks on removed widgets."""

    VERTICAL_BREAKPOINTS = [(0, "-low"), (12, "-short"), (20, "-high")]  # noqa: RUF012 - of the instance, for Textual

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._compositor = LineCompositor()

    @on(Hint.Requested)
    def _say(self, event: Hint.Requested) -> None:
        self.query_one(Hint).say(event.text)

    @on(Hint.Continued)
    def _continue(self) -> None:
        self.query_one(Hint).forget_said()

    @on(FilterInput.Moved)
    def _move_in_list(self, event: FilterInput.Moved) -> None:
        listed = self.query_one(ChoiceList)
        listed.move(event.direction * (listed.page if event.by_page else 1))

    @on(ChoiceList.Changed)
    def _show_keys_of_row(self) -> None:
        self.refresh_bindings()

    @on(events.Mount)
    def _watch_app_focus(self) -> None:
        self.watch(self.app, "app_focus", self._focus_soon, init=False)

    def watch_focused(self) -> None:
        # Textual drops the focus when its widget is removed or the terminal shrinks below the mouse.
        self._focus_soon()

    def _focus_soon(self) -> None:
        if self.is_running:
            self.call_later(self._focus_default)

    def _focus_default(self) -> None:
        if self.focused is not None or not self.app.app_focus or not self.AUTO_FOCUS:
            return
        widget = next((each for each in self.query(self.AUTO_FOCUS) if each.focusable), None)
        if widget is not None:
            self.set_focus(widget, scroll_visible=False)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        # Without a selection, the copy key interrupts.
        return action != "copy_text" or bool(self.get_selected_text())

    def get_widget_and_offset_at(self, x: int, y: int) -> tuple[Widget | None, Offset | None]:
        # A removed widget stays visible until the next layout; Textual fails to select text in it.
        widget, offset = super().get_widget_and_offset_at(x, y)
        return (widget, offset) if widget is None or widget.is_attached else (None, None)

    def dismiss(self, result: _T | None = None) -> AwaitComplete:
        # Textual would dismiss the screen below when a key was pressed twice.
        return super().dismiss(result) if self.app.screen is self else AwaitComplete()


class SubScreen(BaseScreen[_T]):
    """A screen on top of the chat: its heading, its own widgets, a line for messages, and its keys."""

    DEFAULT_CSS = """
    SubScreen.-low HeaderLine {
        display: none;
    }
    """

    HEADING = ""
    hint = query_one(Hint)

    def compose(self) -> ComposeResult:
        yield HeaderLine(self.HEADING)
        yield from self.compose_body()
        yield Hint()
        yield KeyBar()

    def compose_body(self) -> ComposeResult:
        """Yield the widgets between the heading and the messages."""
        yield from ()

    def action_leave(self) -> None:
        """Return to the screen below."""
        self.dismiss(None)

    @property
    def active_bindings(self) -> dict[str, ActiveBinding]:
        return in_order(super().active_bindings, self.idle_keys)

    @property
    def idle_keys(self) -> Collection[str]:
        """Return ids of bindings that are dimmed because they would do nothing."""
        return ()

    def stop_work(self) -> str | None:
        """Stop the work of this screen and return its name, if anything runs."""
        return None
