"""Names of keys on the screen, which the user may have changed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

from textual.binding import Binding
from textual.keys import REPLACED_KEYS, key_to_character

from app.core.fixes import worded
from app.settings.table import BY_NAME

CHOOSE = "f9,ctrl+up,alt+up" if sys.platform == "darwin" else "ctrl+up,alt+up"
"""Keys that choose a message; macOS uses ctrl+up itself, and its terminal does not send alt+up."""
_WORDING_BY_ACTION = {
    "doctor": "tandem doctor",
    "draft": "--draft",
    "isolate": "--isolate",
    "rpc": "--rpc",
    "target": "--target",
    "tune": "tandem tune",
}
"""Actions that are no keys of the chat."""
_own: Callable[[], Mapping[str, str]] = dict


def name_by(own: Callable[[], Mapping[str, str]]) -> None:
    """Set the source of the user's own keys by binding id; it is called whenever a key is named."""
    global _own
    _own = own


def key(identity: str, shipped: str) -> str:
    """Return the displayed first key of the binding with this id; `shipped` is the default."""
    return shown(_own().get(identity, shipped).partition(",")[0])


def code_key(number: int) -> str:
    """Return the user's own key that copies the code block with this number, or else the command.

    Many terminals use Alt with a digit themselves: GNOME Terminal switches tabs, macOS types a character.
    """
    own = _own().get(f"chat.copy_{number}")
    return shown(own.partition(",")[0]) if own else f"/copy {number}"


def shown(name: str) -> str:
    """Return the display name of a key: "ctrl+]" for Textual's "ctrl+right_square_bracket"."""
    *modifiers, last = name.split("+")
    character = "esc" if last == "escape" else key_to_character(REPLACED_KEYS.get(last, last))
    if character is None or not character.isprintable() or character.isspace():
        character = last
    return "+".join([*modifiers, character])


def for_chat(text: str) -> str:
    """Replace the fixes in a text by keys of the chat; see `app.core.fixes`."""
    return worded(text, _words)


def for_pairs(text: str) -> str:
    """Replace the fixes in a text by keys of the list of pairs."""
    return worded(text, lambda name, arguments: _pair_key(name) or _words(name, arguments))


def _pair_key(name: str) -> str | None:
    if name.startswith("pairs."):
        return key("pairs.add", "ctrl+a")
    return key("pairs.choose", "enter") if name.startswith("setup") else None


def _words(name: str, arguments: list[str]) -> str | None:
    if name in BY_NAME:
        return ", ".join([key("chat.settings", "f4"), " ".join([BY_NAME[name].key, *arguments])])
    if name.startswith(("setup", "pairs")):
        return key("chat.pairs", "f6")
    if name == "install":
        from app.hardware.installation import install_command

        return install_command(*arguments)
    return _WORDING_BY_ACTION.get(name)


def bind(
    keys: str,
    action: str,
    name: str,
    identity: str,
    tooltip: str = "",
    *,
    show: bool = True,
    priority: bool = False,
    key_display: str | None = None,
) -> Binding:
    """Return a binding that has an id for the user's own keys, and a tooltip for the list of keys."""
    return Binding(
        keys, action, name, id=identity, tooltip=tooltip, show=show, priority=priority, key_display=key_display
    )
