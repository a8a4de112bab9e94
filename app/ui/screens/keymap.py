"""The user's own keys from the settings file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import import_module
from pkgutil import walk_packages

from textual.binding import Binding
from textual.dom import DOMNode

from app import ui
from app.core.printable import printable
from app.settings.table import nearest

_KEY = re.compile(r"((ctrl|shift|alt|super)\+)*([a-z0-9]|f[1-9][0-9]?|[a-z][a-z_]+)")


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
