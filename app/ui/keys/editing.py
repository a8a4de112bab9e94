"""What the keys of an editor do, in the words of the other keys; Textual names them for programmers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from textual.binding import Binding

_SELECTS = "(True)"
"""Behind a movement that selects what it passes."""
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
    "delete_to_start_of_line": "Delete to the beginning of the line; there, everything",
    "delete_to_end_of_line_or_delete_line": "Delete to the end of the line",
    "delete_line": "Delete the line",
    "cut": "Cut what is selected",
    "copy": "Copy what is selected",
    "paste": "Paste",
    "undo": "Undo what was typed",
    "redo": "Do it again after all",
}


def in_words(bindings: Iterable[Binding]) -> list[Binding]:
    """The bindings of an editor, with what they do as a phrase; one that is not known here keeps its name."""
    return [replace(binding, tooltip=_phrase(binding.action)) for binding in bindings]


def _phrase(action: str) -> str:
    move = _MOVES.get(action.removesuffix(_SELECTS))
    if move is None:
        return _DOES.get(action, "")
    return f"{'Select' if action.endswith(_SELECTS) else 'Move'} {move}"
