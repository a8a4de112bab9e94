"""Conversations in a store, and the screen that lists them, for tests."""

from __future__ import annotations

from pathlib import Path

from app.conversations.message import Role
from app.conversations.store import Store
from app.ui.conversations.picker import ConversationPicker, ConversationsScreen
from app.ui.screens.chat import ChatScreen
from tests.ui.chat_driver import Chat

NOW = 1_700_000_000.0
"""When pictures are taken; see `even_clock`."""


def fill(file: Path, *titles: str) -> None:
    store = Store(file)
    for title in titles:
        number = store.create()
        asked = store.add(number, Role.USER, title, parent=None)
        store.add(number, Role.ASSISTANT, f"The answer about {title} is long.", parent=asked.id)
    store.close()


def texts(file: Path, conversation: int = 1) -> list[str]:
    """Return the texts of the shown branch, message by message."""
    store = Store(file)
    path = store.load(conversation).tree.path
    store.close()
    return [node.text for node in path]


async def look(chat: Chat) -> ConversationsScreen:
    await chat.pilot.press("ctrl+o")
    await chat.pilot.pause()
    if chat.screen.sidebar.has_focus_within:
        await chat.pilot.press("ctrl+o")
    await chat.until(lambda: isinstance(chat.pilot.app.screen, ConversationsScreen))
    await chat.pilot.pause()
    screen = chat.pilot.app.screen
    assert isinstance(screen, ConversationsScreen)
    return screen


async def back(chat: Chat) -> None:
    await chat.until(lambda: isinstance(chat.pilot.app.screen, ChatScreen))


async def filled(chat: Chat) -> ConversationPicker:
    """The list beside the conversation, once it is there."""
    await chat.until(lambda: chat.screen.sidebar.query(ConversationPicker))
    await chat.pilot.pause()
    return chat.screen.sidebar.query_one(ConversationPicker)


def chosen(picker: ConversationPicker) -> str:
    row = picker.conversations.row
    return row.summary.title if row is not None else ""
