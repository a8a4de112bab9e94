"""All keys on one screen."""

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
from app.ui.keys.key_list import Key, KeyTable
from app.ui.widgets.header import HeaderLine

_Group = tuple[str, Sequence[Key]]


class KeyListScreen(SubScreen[None]):
    """Which key does what; nothing else happens here.

    Args:
        keys: By the title of the place where they work.
    """

    CSS_PATH = "key_list.tcss"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]  # noqa: RUF012 - of the instance, for Textual
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,f1", "dismiss", "back", key_display="esc", id="keys.leave", tooltip="Back"),
    ]

    def __init__(self, keys: Mapping[str, Sequence[Key]]) -> None:
        super().__init__()
        self._keys = keys

    def compose(self) -> ComposeResult:
        yield HeaderLine("Keys")
        with VerticalScroll():
            for name, column in zip(("first", "second"), _halves(list(self._keys.items())), strict=True):
                with VerticalGroup(id=name):
                    for title, keys in column:
                        yield Static(Content.styled(title, "bold"), classes="title")
                        yield KeyTable(keys)
        yield KeyBar()


def _halves(groups: list[_Group]) -> tuple[list[_Group], list[_Group]]:
    """The groups in two columns, in their order and as equal as they can be."""

    def unevenness(at: int) -> int:
        return abs(_rows(groups[:at]) - _rows(groups[at:]))

    at = min(range(1, len(groups) + 1), key=unevenness, default=0)
    return groups[:at], groups[at:]


def _rows(groups: Sequence[_Group]) -> int:
    return sum(len(keys) + 2 for _, keys in groups)
