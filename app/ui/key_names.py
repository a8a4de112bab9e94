"""Names of keys on the screen, which the user may have changed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from textual.keys import REPLACED_KEYS, key_to_character

from app.core.fixes import command, worded
from app.core.printable import printable
from app.settings.table import BY_NAME, nearest
from app.ui.actions import BY_ID

_WORDING_BY_ACTION = {
    "doctor": "tandem doctor",
    "draft": "--draft",
    "isolate": "--isolate",
    "rpc": "--rpc",
    "target": "--target",
    "tune": "tandem tune",
}
"""Actions that are no keys of the chat."""
_KEY_NAME = re.compile(r"((ctrl|shift|alt|super)\+)*([a-z0-9]|f[1-9][0-9]?|[a-z][a-z_]+)")
_own: Callable[[], Mapping[str, str]] = dict


def name_by(own: Callable[[], Mapping[str, str]]) -> None:
    """Set the source of the user's own keys by binding id; it is called whenever a key is named."""
    global _own
    _own = own


def key(identity: str) -> str:
    """Return the displayed first key of the action with this id, or "" if it has none."""
    action, own = BY_ID[identity], _own().get(identity)
    if own is None and action.key_display is not None:
        return action.key_display
    return shown((own or action.keys or "").partition(",")[0])


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


def valid_keys(requested: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return the valid keys by binding id, and an error for each invalid key."""
    known = {action.id for action in BY_ID.values() if action.keys is not None}
    valid: dict[str, str] = {}
    errors: list[str] = []
    for identity, text in requested.items():
        keys = [each.strip().lower() for each in text.split(",")]
        name = printable(identity)
        if identity not in known:
            errors.append(f'keys: there is no "{name}".{nearest(identity, known)}')
        elif not all(_KEY_NAME.fullmatch(each) for each in keys):
            errors.append(f'keys.{name} is "{printable(text)}"; it must be a key such as ctrl+k or f8.')
        else:
            valid[identity] = ",".join(keys)
    return valid, errors


def for_chat(text: str) -> str:
    """Replace the fixes in a text by keys of the chat, and make it printable; see `app.core.fixes`."""
    return printable(worded(text, _words))


def for_pairs(text: str) -> str:
    """Replace the fixes in a text by keys of the list of pairs, and make it printable."""
    return printable(worded(text, lambda name, arguments: _pair_key(name) or _words(name, arguments)))


def _pair_key(name: str) -> str | None:
    if name == "pairs.find":
        return key("pairs.add")
    return key("pairs.choose") if name.startswith(("pairs.choose", "setup")) else None


def _words(name: str, arguments: list[str]) -> str | None:
    if name in BY_NAME:
        return ", ".join([key("chat.settings"), " ".join([BY_NAME[name].key, *arguments])])
    if name == "pairs.remove":
        return command(["tandem", "pairs", "remove", *arguments])
    if name.startswith(("setup", "pairs")):
        return key("chat.pairs")
    if name == "install":
        from app.hardware.installation import install_command

        return install_command(*arguments)
    return _WORDING_BY_ACTION.get(name)
