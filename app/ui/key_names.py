"""What a key is called: the user may have put another one in its place, under a name that only programs use."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

from textual.keys import REPLACED_KEYS, key_to_character

CHOOSE = "f9,ctrl+up,alt+up" if sys.platform == "darwin" else "ctrl+up,alt+up"
"""What chooses a message; with ctrl+up macOS shows all windows, and its terminal sends alt+up to nobody."""
_own: Callable[[], Mapping[str, str]] = dict


def name_by(own: Callable[[], Mapping[str, str]]) -> None:
    """From here on let sentences name the keys of one program; a process runs one at a time.

    Args:
        own: Keys by the ids of their bindings, as far as they are not the shipped ones; asked whenever one is named.
    """
    global _own
    _own = own


def key(identity: str, shipped: str) -> str:
    """The key that a binding is on now, as the last line shows it; of several the first.

    Args:
        identity: The id of the binding.
        shipped: The key that it comes with: a sentence can be read where it is written, and needs no screen for it.
    """
    return shown(_own().get(identity, shipped).partition(",")[0])


def shown(name: str) -> str:
    """A key as people read it: "ctrl+]" for "ctrl+right_square_bracket".

    Args:
        name: As Textual has it, and the settings file.
    """
    *held, last = name.split("+")
    character = "esc" if last == "escape" else key_to_character(REPLACED_KEYS.get(last, last))
    if character is None or not character.isprintable() or character.isspace():
        character = last
    return "+".join([*held, character])
