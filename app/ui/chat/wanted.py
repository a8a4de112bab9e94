"""What the chat screen wants of the application: another screen on top of it."""

from __future__ import annotations

from dataclasses import dataclass

from textual.message import Message

from app.ui.chat.comparable import Comparable


class PairsWanted(Message):
    """The user wants to choose another pair."""


class ConversationsWanted(Message):
    """The user wants to look for a conversation."""


@dataclass
class ComparisonWanted(Message):
    """The user wants to see a prompt answered with and without the draft."""

    what: Comparable


class SettingsWanted(Message):
    """The user wants to see the settings."""
