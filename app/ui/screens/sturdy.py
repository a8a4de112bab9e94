"""Screens that bear keys and clicks at awkward moments."""

from __future__ import annotations

from typing import TypeVar

from textual import events, on
from textual.geometry import Offset
from textual.screen import Screen
from textual.widget import Widget

_T = TypeVar("_T")


class SturdyScreen(Screen[_T]):
    """On which keys always go somewhere, and a click on what has just gone goes nowhere.

    A terminal that is not in front takes the focus from its widget, which is not left by that: it gets the focus back.
    Widgets that end something when they are left look at `App.app_focus` first; if it has gone elsewhere meanwhile,
    they are told once more that they have lost it.
    """

    # What a screen is for has the rows, where there are few.
    VERTICAL_BREAKPOINTS = [(0, "-low"), (12, "-short"), (20, "-high")]  # noqa: RUF012 - of the instance, for Textual

    _waits_for_us: Widget | None = None
    """What had the focus when another window came in front."""

    @on(events.Mount)
    def _watch_the_front(self) -> None:
        self.watch(self.app, "app_focus", self._on_front, init=False)

    def watch_focused(self, before: Widget | None, focused: Widget | None) -> None:
        if focused is None and not self.app.app_focus:
            self._waits_for_us = before
        # Textual takes the focus from everything when the mouse is where the terminal was before it became smaller,
        # and when what had it goes and nothing stands beside it.
        elif focused is None and self.is_running:
            self.call_later(self._focus_again)

    def _on_front(self, in_front: bool) -> None:
        if not in_front:
            return
        # Textual has given the focus back before, if it could.
        waited, self._waits_for_us = self._waits_for_us, None
        if waited is not None and waited.is_attached and self.focused is not waited:
            waited.post_message(events.Blur())
        self.call_later(self._focus_again)

    def _focus_again(self) -> None:
        # A terminal that is not in front has its focus kept by the application.
        if self.focused is not None or not self.app.app_focus or not self.AUTO_FOCUS:
            return
        widget = next((each for each in self.query(self.AUTO_FOCUS) if each.focusable), None)
        if widget is not None:
            self.set_focus(widget, scroll_visible=False)

    def get_widget_and_offset_at(self, x: int, y: int) -> tuple[Widget | None, Offset | None]:
        # What was taken out is seen until the next layout, and Textual looks for what it was in when text is marked.
        widget, offset = super().get_widget_and_offset_at(x, y)
        return (widget, offset) if widget is None or widget.is_attached else (None, None)
