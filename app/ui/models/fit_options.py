"""Options for a pair that does not fit into memory, and the list that offers them in the chat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import HorizontalGroup, VerticalGroup
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from app.core.errors import AppError
from app.core.printable import printable
from app.ui.key_names import for_chat
from app.ui.models.state import FitOption

_OPTION_KEYS = "123456789"


class FitOptionLine(HorizontalGroup):
    """An option; `key` takes it, unless it needs a download."""

    def __init__(self, option: FitOption, key: str) -> None:
        offer, more = option.offer, f"\n{printable(option.command)}" if option.command else ""
        text = (f"{printable(offer.what)}, {offer.gain}", (f"\n{printable(offer.cost)}{more}", "$quiet"))
        parts = Static(key, classes="key"), Static(Content.assemble(*text), classes="option")
        super().__init__(*parts, classes="-takeable" if key else "")
        self._option = option

    def on_click(self, event: events.Click) -> None:
        event.stop()
        self.post_message(FitOptionList.OptionTaken(self._option))


class FitOptionList(VerticalGroup, can_focus=True):
    """All options. A digit takes one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(key, f"take('{key}')", show=False) for key in _OPTION_KEYS),
        Binding("escape", "leave", show=False),
    ]

    @dataclass
    class OptionTaken(Message):
        """The user takes an option, which may need a download first."""

        option: FitOption

    def __init__(self, options: Sequence[FitOption]) -> None:
        super().__init__()
        self._options = options
        self._by_key = dict(zip(_OPTION_KEYS, (one for one in options if one.apply is not None), strict=False))

    def compose(self) -> ComposeResult:
        keys = iter(self._by_key)
        for option in self._options:
            yield FitOptionLine(option, next(keys, "") if option.apply is not None else "")
        if self._by_key:
            yield Static(f"Press {self._keys} or click to apply; esc returns to the prompt", classes="keys")

    @property
    def _keys(self) -> str:
        n = len(self._by_key)
        return {1: "1", 2: "1 or 2"}.get(n, f"1 to {n}")

    @property
    def key_use(self) -> str:
        """Return what keys do while the list has the focus, and how to return."""
        return f"{self._keys} applies an option; esc or typing returns here" if self._by_key else ""

    def focus_on_click(self) -> bool:
        # A line below may disappear when another widget gets the focus, and move the options away from the mouse.
        return False

    def action_take(self, key: str) -> None:
        self.post_message(self.OptionTaken(self._by_key[key]))

    def action_leave(self) -> None:
        # The screen gives the focus to the prompt.
        self.screen.set_focus(None)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave the digits without an option to the prompt."""
        return parameters[0] in self._by_key if action == "take" else True


class ErrorNotice(VerticalGroup):
    """An error and its fix, perhaps with options to choose from."""

    def __init__(self, error: AppError, options: Sequence[FitOption] = ()) -> None:
        super().__init__()
        self._error = error
        self._options = options

    def compose(self) -> ComposeResult:
        yield Static(for_chat(self._error.message), markup=False)
        if self._options:
            yield FitOptionList(self._options)
        if self._error.hint:
            yield Static(for_chat(self._error.hint), classes="way-out", markup=False)
