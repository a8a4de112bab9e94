"""Every key of the program, from the bindings themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from textual.app import App
from textual.binding import Binding, BindingType
from textual.dom import DOMNode
from textual.screen import Screen
from textual.widgets import TextArea

from app.ui.key_names import shown
from app.ui.keys.editing import in_words

_OURS = "app."
_EDITING = "Editing"


@dataclass(frozen=True, slots=True)
class Key:
    """One thing that keys do.

    Attributes:
        keys: The keys, as they are shown.
        does: What they do, as a phrase.
        usual: The keys that this was on before the user changed them; "" if they were not changed.
    """

    keys: str
    does: str
    usual: str = ""


def every_key(nodes: Iterable[DOMNode], changed: Mapping[str, str]) -> dict[str, list[Key]]:
    """The keys by the title of the place where they work, in the order of the places.

    Args:
        nodes: The places; each names itself by `BINDING_GROUP_TITLE`.
        changed: Other keys, by the id of a binding.
    """
    declared: dict[str, list[BindingType]] = {}
    edits = False
    before_editing: set[str] = set()
    for kind in dict.fromkeys(type(node) for node in nodes):
        edits = edits or issubclass(kind, TextArea)
        if issubclass(kind, (App, Screen, TextArea)):
            before_editing |= set(_keys_before_others(kind, changed))
        if title := kind.BINDING_GROUP_TITLE:
            declared.setdefault(title, []).extend(_own_bindings(kind))
    if edits:
        editing = in_words(Binding.make_bindings(TextArea.BINDINGS))
        declared[_EDITING] = [binding for binding in editing if binding.key not in before_editing]
    return {title: keys for title, bindings in declared.items() if (keys := keys_of(bindings, changed))}


def keys_of(bindings: Iterable[BindingType], changed: Mapping[str, str]) -> list[Key]:
    """What the keys of one place do, one row for each.

    Of two bindings for one thing the first one tells what it is. Of two things on one key the first one goes before
    the other where both could be meant.
    """
    found: dict[str, list[Binding]] = {}
    for binding in Binding.make_bindings(bindings):
        if binding.tooltip or binding.description:
            found.setdefault(binding.action, []).append(binding)
    rows: dict[str, Key] = {}
    for key in (_key(together, changed) for together in found.values()):
        before = rows.get(key.keys)
        if before is not None:
            rows[key.keys] = replace(before, does=f"{before.does}, else {key.does[:1].lower()}{key.does[1:]}")
        elif not any(key.keys in shown.split("/") for shown in rows):
            # Else a row such as left/right has it already.
            rows[key.keys] = key
    return list(rows.values())


def _keys_before_others(kind: type[DOMNode], changed: Mapping[str, str]) -> Iterator[str]:
    """The keys that never come to an editor on that screen."""
    for binding in Binding.make_bindings(_own_bindings(kind)):
        if binding.priority:
            yield from changed.get(binding.id or "", binding.key).split(",")


def _key(together: list[Binding], changed: Mapping[str, str]) -> Key:
    first = together[0]
    does = first.tooltip or first.description
    usual = ", ".join(dict.fromkeys(binding.key_display or shown(binding.key) for binding in together))
    mine = changed.get(first.id or "")
    if mine is None or set(mine.split(",")) == {binding.key for binding in together}:
        return Key(usual, _capital(does))
    return Key(", ".join(map(shown, mine.split(","))), _capital(does), usual)


def _own_bindings(kind: type[DOMNode]) -> Iterator[BindingType]:
    """What a class and those it is made of declare, as far as they are Tandem's; the nearest one has a key."""
    taken: set[str] = set()
    for part in kind.__mro__:
        if part.__module__.startswith(_OURS):
            fresh = [one for one in Binding.make_bindings(part.__dict__.get("BINDINGS", ())) if one.key not in taken]
            taken |= {binding.key for binding in fresh}
            yield from fresh


def _capital(phrase: str) -> str:
    return phrase[:1].upper() + phrase[1:]
