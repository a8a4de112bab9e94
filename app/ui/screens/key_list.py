"""The keys screen: every key and what it does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalGroup, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from app.ui.base_screen import SubScreen
from app.ui.keys.footer import KeyBar
from app.ui.keys.key_list import EDITING, Key, KeyTable
from app.ui.widgets.header import HeaderLine

_Group = tuple[str, Sequence[Key]]


class KeyListScreen(SubScreen[None]):
    """Every key by the title of its place; editing keys come last and are folded."""

    CSS_PATH = "key_list.tcss"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]  # noqa: RUF012 - of the instance, for Textual
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,f1", "dismiss", "back", key_display="esc", id="keys.leave", tooltip="Back"),
        Binding("e", "toggle_editing", "editing keys", id="keys.editing", tooltip="Show or hide editing keys"),
    ]

    def __init__(self, keys: Mapping[str, Sequence[Key]]) -> None:
        super().__init__()
        self._keys = dict(keys)
        self._editing = self._keys.pop(EDITING, [])

    def compose(self) -> ComposeResult:
        yield HeaderLine("Keys")
        with VerticalScroll():
            for name, column in zip(("first", "second"), _halves(list(self._keys.items())), strict=True):
                with VerticalGroup(id=name):
                    for title, keys in column:
                        yield Static(Content.styled(title, "bold"), classes="title")
                        yield KeyTable(keys)
                    if name == "second":
                        with VerticalGroup(id="editing"):
                            yield Static(Content.styled(EDITING, "bold"), classes="title")
                            yield KeyTable(self._editing)
        yield KeyBar()

    def on_mount(self) -> None:
        self.query_one("#editing").display = False

    def action_toggle_editing(self) -> None:
        editing = self.query_one("#editing")
        editing.display = not editing.display
        if editing.display:
            editing.scroll_visible(animate=False)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Hide the key for editing keys if there are none."""
        return bool(self._editing) if action == "toggle_editing" else True


def _halves(groups: list[_Group]) -> tuple[list[_Group], list[_Group]]:
    """Return the groups in two columns of similar length."""

    def unevenness(at: int) -> int:
        return abs(_rows(groups[:at]) - _rows(groups[at:]))

    at = min(range(1, len(groups) + 1), key=unevenness, default=0)
    return groups[:at], groups[at:]


def _rows(groups: Sequence[_Group]) -> int:
    return sum(len(keys) + 2 for _, keys in groups)
