"""All keys on one screen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from app.ui.key_map import Key
from app.ui.screens.overlay import Overlay
from app.ui.widgets.header import HeaderLine
from app.ui.widgets.key_bar import KeyBar

_KEYS = 26
"""Cells for the keys."""


class KeyListScreen(Overlay[None]):
    """Which key does what; nothing else happens here.

    Args:
        keys: By the title of the place where they work.
    """

    CSS_PATH = "key_list.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,f1", "dismiss", "back", key_display="esc", id="keys.leave", tooltip="Back"),
    ]

    def __init__(self, keys: Mapping[str, Sequence[Key]]) -> None:
        super().__init__()
        self._keys = keys

    def compose(self) -> ComposeResult:
        yield HeaderLine("Keys")
        with VerticalScroll():
            for title, keys in self._keys.items():
                yield Static(Content.styled(title, "bold"), classes="title")
                for key in keys:
                    yield Static(_line(key), classes="key")
        yield KeyBar()


def _line(key: Key) -> Content:
    was = f"  (was {key.usual})" if key.usual else ""
    return Content.assemble(f"{key.keys:{_KEYS - 1}} ", (key.does, "$quiet"), (was, "$foreground"))
