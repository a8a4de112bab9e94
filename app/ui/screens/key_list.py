"""The keys screen: every key that works in the screen below, and what it does; the user's own keys."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from importlib import import_module
from pkgutil import walk_packages
from typing import ClassVar

from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import ActiveBinding, Binding, BindingType
from textual.containers import VerticalScroll
from textual.dom import DOMNode
from textual.widgets import Static

from app import ui
from app.core.printable import printable
from app.settings.table import nearest
from app.ui.base_screen import SubScreen
from app.ui.key_names import shown
from app.ui.keys import KeyBar
from app.ui.widgets.header import HeaderLine

_EDITING = "Editing"
_KEY_WIDTH = 22
_KEY = re.compile(r"((ctrl|shift|alt|super)\+)*([a-z0-9]|f[1-9][0-9]?|[a-z][a-z_]+)")


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


# The user's own keys from the settings file


def every_binding() -> list[Binding]:
    """Return the bindings of the program and of every screen and widget."""
    for module in walk_packages(ui.__path__, "app.ui."):
        import_module(module.name)
    places: list[type[DOMNode]] = [DOMNode]
    for place in places:
        places += place.__subclasses__()
    own = [vars(place).get("BINDINGS", ()) for place in places if place.__module__.startswith("app.ui.")]
    return list(dict.fromkeys(binding for bindings in own for binding in bindings if isinstance(binding, Binding)))


def valid_keys(requested: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return the valid keys by the ids of bindings, and an error for each of the others."""
    known = {binding.id for binding in every_binding() if binding.id}
    valid: dict[str, str] = {}
    errors: list[str] = []
    for identity, text in requested.items():
        keys = [key.strip().lower() for key in text.split(",")]
        name = printable(identity)
        if identity not in known:
            errors.append(f'keys: there is no "{name}".{nearest(identity, known)}')
        elif not all(_KEY.fullmatch(key) for key in keys):
            errors.append(f'keys.{name} is "{printable(text)}"; it must be a key such as ctrl+k or f8.')
        else:
            valid[identity] = ",".join(keys)
    return valid, errors
