"""Screens on top of the chat, which leave once however fast the keys come."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar, TypeVar

from textual.await_complete import AwaitComplete
from textual.binding import ActiveBinding

from app.ui.keys.order import in_order
from app.ui.screens.sturdy import SturdyScreen

_T = TypeVar("_T")


class Overlay(SturdyScreen[_T]):
    """A screen that leaves itself only.

    Textual takes whatever screen is on top when one is dismissed. A key that was pressed twice comes when its screen
    has left already: it would take the next one too, in the end the last.
    """

    DEFAULT_CSS = """
    Overlay.-low HeaderLine {
        display: none;
    }
    """

    SHOWN_FIRST: ClassVar[tuple[str, ...]] = ()
    """The ids of the bindings for the last line, most wanted first."""

    @property
    def active_bindings(self) -> dict[str, ActiveBinding]:
        return in_order(super().active_bindings, self.SHOWN_FIRST, self.idle_keys)

    @property
    def idle_keys(self) -> Collection[str]:
        """The ids of the keys that have nothing to do now."""
        return ()

    def stop_work(self) -> str:
        """Stop what goes on here; returns what that is, "" where nothing does."""
        return ""

    def put_down(self) -> None:
        """The program ends: let go of what is being typed here, so that it outlives that."""

    def dismiss(self, result: _T | None = None) -> AwaitComplete:
        return super().dismiss(result) if self.app.screen is self else AwaitComplete()
