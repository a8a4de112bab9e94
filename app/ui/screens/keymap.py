"""The user's own keys from the settings file."""

from __future__ import annotations

import re
from collections.abc import Mapping

from textual.binding import Binding
from textual.dom import DOMNode

from app.core.printable import printable
from app.settings.table import nearest
from app.ui.compare.screen import CompareScreen
from app.ui.composer.input import PromptInput
from app.ui.conversations.picker import ConversationPicker, ConversationsScreen, TitleInput
from app.ui.conversations.sidebar import Sidebar
from app.ui.keys import PROGRAM_KEYS
from app.ui.models.add_pair_screen import AddPairScreen
from app.ui.models.setup_screen import SetupScreen
from app.ui.screens.chat import ChatScreen
from app.ui.screens.key_list import KeyListScreen
from app.ui.settings.screen import SettingFilter, SettingsScreen
from app.ui.transcript.message_view import MessageView
from app.ui.widgets.inputs import PairFilter, SearchInput, SourceInput

_KEY = re.compile(r"((ctrl|shift|alt|super)\+)*([a-z0-9]|f[1-9][0-9]?|[a-z][a-z_]+)")
_PLACES: tuple[type[DOMNode], ...] = (
    ChatScreen,
    PromptInput,
    MessageView,
    Sidebar,
    ConversationPicker,
    SearchInput,
    TitleInput,
    CompareScreen,
    KeyListScreen,
    SetupScreen,
    PairFilter,
    ConversationsScreen,
    AddPairScreen,
    SourceInput,
    SettingsScreen,
    SettingFilter,
)


def every_binding() -> list[Binding]:
    """Return the bindings of the program and of every screen and widget."""
    declared = [*PROGRAM_KEYS, *(binding for place in _PLACES for binding in place.BINDINGS)]
    return [binding for binding in declared if isinstance(binding, Binding)]


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
