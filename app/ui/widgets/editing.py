"""Editing keys in the order in which they were typed, and characters that Textual takes for none."""

from __future__ import annotations

import unicodedata

from textual import events
from textual.widgets import Input, TextArea

from app.core.printable import printable

_UNSEEN = ("Zs", "Cf")
"""Spaces of any width, and what joins characters or keeps them apart."""


async def run_own_binding(widget: Input | TextArea, event: events.Key) -> None:
    """Do at once what a key means to the widget that has the focus.

    Textual asks bindings only when a key has bubbled up to the app. By then characters that were typed after it stand
    in the text already: a fast typist's backspace would take away the wrong ones. And it drops what has no ink of its
    own: the space of Japanese, the non-joiner of Persian, the joiners of Indic scripts and of emoji.
    """
    if (character := _unseen(event)) is not None:
        widget.replace(character, *widget.selection)
        event.stop()
        event.prevent_default()
        return
    for binding in widget._bindings.key_to_bindings.get(event.key, ()):
        if not binding.priority and await widget.app.run_action(binding.action, widget):
            event.stop()
            event.prevent_default()
            return


def _unseen(event: events.Key) -> str | None:
    """The character of a key that is text without ink; None for every other key."""
    character = event.character
    if character is None or len(character) != 1 or event.is_printable:
        return None
    safe = printable(character) == character
    return character if safe and unicodedata.category(character) in _UNSEEN else None
