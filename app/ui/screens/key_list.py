"""The keys screen: every key that works in the screen below, and what it does."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import ActiveBinding, Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Static

from app.ui.base_screen import SubScreen
from app.ui.key_names import shown
from app.ui.keys import KeyBar
from app.ui.widgets.header import HeaderLine

_EDITING = "Editing"
_KEY_WIDTH = 22


class KeyListScreen(SubScreen[None]):
    """List the keys of the screen below by place; Textual's own editing keys come last."""

    DEFAULT_CSS = """
    KeyListScreen { background: $background; color: $foreground; }
    KeyListScreen Static { padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,f1", "dismiss", "back", key_display="esc", id="keys.leave", tooltip="Back"),
    ]

    def __init__(self, bindings: Iterable[ActiveBinding]) -> None:
        super().__init__()
        self._listed = list(bindings)

    def compose(self) -> ComposeResult:
        yield HeaderLine("Keys")
        with VerticalScroll():
            yield Static(self._table())
        yield KeyBar()

    def _table(self) -> Table:
        groups: dict[str, dict[str, list[Binding]]] = {_EDITING: {}}
        for node, binding, _, _ in self._listed:
            title = node.BINDING_GROUP_TITLE if binding.id else _EDITING
            if title and binding.description:
                groups.setdefault(title, {}).setdefault(binding.action, []).append(binding)
        groups[_EDITING] = groups.pop(_EDITING)
        table = Table.grid(padding=(0, 2))
        table.add_column(max_width=_KEY_WIDTH)
        table.add_column(style=self.app.theme_variables["quiet"])
        for title, actions in groups.items():
            if actions:
                table.add_row(Text(title, "bold"))
                for together in actions.values():
                    keys = dict.fromkeys(binding.key_display or shown(binding.key) for binding in together)
                    does = together[0].tooltip or together[0].description
                    table.add_row(Text(", ".join(keys)), Text(f"{does[:1].upper()}{does[1:]}"))
                table.add_row()
        return table
