"""Check the command palette."""

from __future__ import annotations

from pathlib import Path

from app.core.errors import AppError
from tests.ui.chat_driver import Chat
from tests.ui.conversations_driver import texts
from tests.ui.kept_driver import kept_chat
from tests.ui.steering_driver import (
    exchange,
    palette,
    press,
)


def commands(chat: Chat) -> set[str]:
    return {entry.title for entry in chat.pilot.app.get_system_commands(chat.screen)}


async def test_a_conversation_is_renamed(file: Path) -> None:
    async with kept_chat(file) as chat:
        assert "Rename" not in commands(chat)
        await exchange(chat, "why is the sky blue?", "Rayleigh")
        await chat.type("draft")
        await palette(chat, "Rename")
        await chat.shows("Renaming the conversation")
        assert chat.prompt == "why is the sky blue?"
        await press(chat, "ctrl+a")
        chat.screen.prompt.clear()
        await chat.type("Sky")
        await press(chat, "enter")
        await chat.shows('The conversation is called "Sky".')
        assert chat.prompt == "draft"
        assert len(chat.engine.requests) == 1


async def test_a_conversation_is_pinned_and_unpinned(file: Path) -> None:
    async with kept_chat(file) as chat:
        await exchange(chat, "one", "first")
        await palette(chat, "Pin")
        await chat.shows('"one" is pinned.')
        assert "Pin" not in commands(chat)
        await palette(chat, "Unpin")
        await chat.shows('"one" is no longer pinned.')


async def test_a_conversation_is_deleted_and_downloaded_back(file: Path) -> None:
    async with kept_chat(file) as chat:
        await exchange(chat, "one", "first")
        await palette(chat, "Delete")
        await chat.shows('"one" is deleted; ctrl+p, Undelete restores it.')
        assert chat.answers == []
        await palette(chat, "Undelete")
        await chat.shows("first")
        await exchange(chat, "two", "second")
        assert texts(file) == ["one", "first", "two", "second"]


async def test_a_prompt_that_came_to_nothing_meanwhile_is_no_title(file: Path) -> None:
    async with kept_chat(file) as chat:
        await exchange(chat, "one", "first")
        await chat.send("two")
        await palette(chat, "Rename")
        await chat.shows("Renaming the conversation")
        chat.screen.prompt.clear()
        chat.engine.fails(AppError("It broke."))
        await chat.ready()
        assert chat.prompt == ""
        await chat.type("Numbers")
        await press(chat, "enter")
        await chat.shows('The conversation is called "Numbers".')
        await chat.until(lambda: chat.prompt == "two")
