"""The user's keys, checked against the bindings of every screen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from textual.app import App
from textual.dom import DOMNode

from app.ui.compare.screen import CompareScreen
from app.ui.composer.input import PromptInput
from app.ui.conversations.picker import ConversationPicker, TitleInput
from app.ui.conversations.screen import ConversationsScreen
from app.ui.conversations.sidebar import Sidebar
from app.ui.keys.bindings import PROGRAM_KEYS
from app.ui.keys.custom_keys import Places, valid_keys
from app.ui.models.add_pair_screen import AddPairScreen
from app.ui.models.setup_screen import SetupScreen
from app.ui.screens.chat import ChatScreen
from app.ui.screens.key_list import KeyListScreen
from app.ui.settings.screen import SettingFilter, SettingsScreen
from app.ui.transcript.message_view import MessageView
from app.ui.widgets.filter_input import PairFilter, SearchInput, SourceInput


def places() -> Places:
    """Return the bindings of every screen and its widgets."""
    screens: tuple[tuple[type[DOMNode], ...], ...] = (
        (ChatScreen, PromptInput),
        (ChatScreen, MessageView),
        (ChatScreen, Sidebar, ConversationPicker, SearchInput),
        (ChatScreen, Sidebar, ConversationPicker, TitleInput),
        (CompareScreen,),
        (KeyListScreen,),
        (SetupScreen, PairFilter),
        (ConversationsScreen, SearchInput),
        (AddPairScreen, SourceInput),
        (SettingsScreen, SettingFilter),
    )
    return [[*PROGRAM_KEYS, *(binding for part in parts for binding in part.BINDINGS)] for parts in screens]


def take_keys(app: App[Any], wishes: Mapping[str, str]) -> list[str]:
    """Put the user's keys in place; returns which cannot be, in sentences.

    Args:
        app: The program.
        wishes: Keys by the ids of bindings.
    """
    met, told = valid_keys(wishes, places())
    app.set_keymap(met)
    return told
