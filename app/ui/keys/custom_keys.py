"""The user's own keys from the settings file: which are valid and free."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from textual.binding import Binding, BindingType

from app.core.printable import printable
from app.settings.table import nearest

_KEY = re.compile(r"((ctrl|shift|alt|super)\+)*([a-z0-9]|f[1-9][0-9]?|[a-z][a-z_]+)")

Places = Sequence[Iterable[BindingType]]
"""Bindings that are active together, one group for each screen."""


def valid_keys(wanted_keys: Mapping[str, str], places: Places) -> tuple[dict[str, str], list[str]]:
    """Return the valid keys, and an error for each of the others.

    Args:
        wanted_keys: Keys, separated by commas, by the ids of bindings.
        places: All bindings.
    """
    known = {binding.id or "": binding.key for place in places for binding in _with_id(place)}
    valid: dict[str, str] = {}
    errors: list[str] = []
    for identity, text in wanted_keys.items():
        keys = [key.strip().lower() for key in text.split(",")]
        name = printable(identity)
        if identity not in known:
            errors.append(f'keys: there is no "{name}".{nearest(identity, known)}')
        elif not all(_KEY.fullmatch(key) for key in keys):
            errors.append(f'keys.{name} is "{printable(text)}"; it must be a key such as ctrl+k or f8.')
        else:
            valid[identity] = ",".join(keys)
    # One change may free the key of another, so conflicts are looked for last.
    for identity in list(valid):
        conflict = _conflict(identity, {**known, **valid}, known, places)
        if conflict is not None:
            key, other = conflict
            errors.append(f"keys.{identity} is {key}, which is taken by {other}; {identity} keeps {known[identity]}.")
            del valid[identity]
    return valid, errors


def _conflict(
    identity: str, keys: Mapping[str, str], shipped: Mapping[str, str], places: Places
) -> tuple[str, str] | None:
    """Return a key that a binding shares with another of the same screen, and the other; some share one by default."""
    wanted = keys[identity].split(",")
    for place in places:
        bindings = list(_with_id(place))
        if all(binding.id != identity for binding in bindings):
            continue
        for other in bindings:
            if other.id != identity and other.id is not None:
                for key in keys[other.id].split(","):
                    by_default = key in shipped[identity].split(",") and key in shipped[other.id].split(",")
                    if key.strip() in wanted and not by_default:
                        return key.strip(), other.id
    return None


def _with_id(place: Iterable[BindingType]) -> Iterator[Binding]:
    return (binding for binding in place if isinstance(binding, Binding) and binding.id is not None)
