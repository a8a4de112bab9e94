"""The list of every key, made from the bindings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from textual.app import App
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.dom import DOMNode
from textual.geometry import Size
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import TextArea

from app.ui.key_names import shown

_OURS = "app."
EDITING = "Editing"
_SELECTS = "(True)"
"""Ends the action of a movement that selects."""
_MOVES = {
    "cursor_up": "one line up",
    "cursor_down": "one line down",
    "cursor_left": "one character to the left",
    "cursor_right": "one character to the right",
    "cursor_word_left": "one word to the left",
    "cursor_word_right": "one word to the right",
    "cursor_line_start": "to the beginning of the line",
    "cursor_line_end": "to the end of the line",
    "cursor_page_up": "one page up",
    "cursor_page_down": "one page down",
}
_DOES = {
    "select_line": "Select the line",
    "select_all": "Select everything",
    "delete_left": "Delete the character before the cursor",
    "delete_right": "Delete the character under the cursor",
    "delete_word_left": "Delete to the beginning of the word",
    "delete_word_right": "Delete to the end of the word",
    "delete_to_start_of_line": "Delete to the beginning of the line; there, delete everything",
    "delete_to_end_of_line_or_delete_line": "Delete to the end of the line",
    "delete_line": "Delete the line",
    "cut": "Cut the selection",
    "copy": "Copy the selection",
    "paste": "Paste",
    "undo": "Undo",
    "redo": "Redo",
}


_WIDE, _NARROW = 26, 18
"""Cells of the keys in a wide and in a narrow window."""
_TWO_COLUMNS_FROM, _WIDE_FROM = 36, 70
"""Columns of a window."""
_INDENT = 2


@dataclass(frozen=True, slots=True)
class Key:
    """One thing that keys do.

    Attributes:
        keys: The keys as shown.
        does: What they do, as a phrase.
        usual: The default keys, if the user changed them, else "".
    """

    keys: str
    does: str
    usual: str = ""


def every_key(nodes: Iterable[DOMNode], changed: Mapping[str, str]) -> dict[str, list[Key]]:
    """Return the keys by the title of the place where they work.

    Args:
        nodes: The places; `BINDING_GROUP_TITLE` is the title.
        changed: The user's own keys by the id of a binding.
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
        editing = editor_keys(Binding.make_bindings(TextArea.BINDINGS))
        declared[EDITING] = [binding for binding in editing if binding.key not in before_editing]
    return {title: keys for title, bindings in declared.items() if (keys := keys_of(bindings, changed))}


def keys_of(bindings: Iterable[BindingType], changed: Mapping[str, str]) -> list[Key]:
    """Return the keys of one place, one row for each action; two actions on one key share a row."""
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
    """Yield the keys that never reach an editor."""
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
    """Yield the bindings that Tandem's classes declare; the nearest class wins."""
    taken: set[str] = set()
    for part in kind.__mro__:
        if part.__module__.startswith(_OURS):
            fresh = [one for one in Binding.make_bindings(part.__dict__.get("BINDINGS", ())) if one.key not in taken]
            taken |= {binding.key for binding in fresh}
            yield from fresh


def _capital(phrase: str) -> str:
    return phrase[:1].upper() + phrase[1:]


def editor_keys(bindings: Iterable[Binding]) -> list[Binding]:
    """Return the bindings of Textual's editor with what they do in words."""
    return [replace(binding, tooltip=_phrase(binding.action)) for binding in bindings]


def _phrase(action: str) -> str:
    move = _MOVES.get(action.removesuffix(_SELECTS))
    if move is None:
        return _DOES.get(action, "")
    return f"{'Select' if action.endswith(_SELECTS) else 'Move'} {move}"


class KeyTable(Widget):
    """Show keys and what they do, in two columns where there is room.

    Args:
        keys: From top to bottom.
    """

    DEFAULT_CSS = "KeyTable { height: auto; }"

    def __init__(self, keys: Sequence[Key]) -> None:
        super().__init__()
        self._keys = keys

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return sum(1 for _ in self._lines(width))

    def render(self) -> Content:
        return Content("\n").join(self._lines(self.size.width))

    def _lines(self, width: int) -> Iterator[Content]:
        left = _WIDE if width >= _WIDE_FROM else _NARROW
        for key in self._keys:
            was = f"  (was {key.usual})" if key.usual else ""
            keys = Content(key.keys)
            does = Content.assemble((key.does, "$quiet"), (was, "$foreground"))
            if width >= _TWO_COLUMNS_FROM:
                yield from _two_columns(keys.wrap(left - 1), does.wrap(width - left), left)
            else:
                yield from keys.wrap(max(1, width))
                yield from (line.pad_left(_INDENT) for line in does.wrap(max(1, width - _INDENT)))


def _two_columns(keys: Sequence[Content], does: Sequence[Content], left: int) -> Iterator[Content]:
    for key, words in zip_longest(keys, does, fillvalue=Content("")):
        yield Content.assemble(key.pad_right(left - key.cell_length), words)
