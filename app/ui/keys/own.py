"""Keys of the user's own: which of the wishes can be met."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from textual.binding import Binding, BindingType

from app.core.printable import printable
from app.settings.table import nearest

_KEY = re.compile(r"((ctrl|shift|alt|super)\+)*([a-z0-9]|f[1-9][0-9]?|[a-z][a-z_]+)")

Places = Sequence[Iterable[BindingType]]
"""Bindings that can be asked for at the same time, one group a screen."""


def granted(wishes: Mapping[str, str], everywhere: Places) -> tuple[dict[str, str], list[str]]:
    """The wishes that can be met, and a sentence for each of the others.

    Args:
        wishes: Keys, separated by commas, by the ids of bindings.
        everywhere: The bindings there are.
    """
    known = {binding.id or "": binding.key for place in everywhere for binding in _with_id(place)}
    met: dict[str, str] = {}
    told: list[str] = []
    for identity, text in wishes.items():
        keys = [key.strip().lower() for key in text.split(",")]
        name = printable(identity)
        if identity not in known:
            told.append(f'keys: there is no "{name}".{nearest(identity, known)}')
        elif not all(_KEY.fullmatch(key) for key in keys):
            told.append(f'keys.{name} is "{printable(text)}"; it must be a key such as ctrl+k or f8.')
        else:
            met[identity] = ",".join(keys)
    # One wish may free the key of another; so all are granted before it is asked who is in whose way.
    for identity in list(met):
        clash = _clash(identity, {**known, **met}, known, everywhere)
        if clash is not None:
            key, other = clash
            told.append(f"keys.{identity} is {key}, which is taken by {other}; {identity} keeps {known[identity]}.")
            del met[identity]
    return met, told


def _clash(
    identity: str, keys: Mapping[str, str], shipped: Mapping[str, str], everywhere: Places
) -> tuple[str, str] | None:
    """The key that a binding shares with another of the same screen, and whose it is; some share one by design."""
    wanted = keys[identity].split(",")
    for place in everywhere:
        bindings = list(_with_id(place))
        if all(binding.id != identity for binding in bindings):
            continue
        for other in bindings:
            if other.id != identity and other.id is not None:
                for key in keys[other.id].split(","):
                    by_design = key in shipped[identity].split(",") and key in shipped[other.id].split(",")
                    if key.strip() in wanted and not by_design:
                        return key.strip(), other.id
    return None


def _with_id(place: Iterable[BindingType]) -> Iterator[Binding]:
    return (binding for binding in place if isinstance(binding, Binding) and binding.id is not None)
