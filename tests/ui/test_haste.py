"""Keys that come twice, or before what they are for is there."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual import events

from app.chat.store import Store
from app.settings.file import SettingsFile
from app.settings.live import LiveSettings
from app.ui.screens.chat import ChatScreen
from tests.ui.chat_driver import Chat, open_chat
from tests.ui.setup_driver import open_setup


def hit(chat: Chat, *keys: str) -> None:
    """Keys that arrive at once; nothing is waited for."""
    for key in keys:
        chat.pilot.app.post_message(events.Key(key, None))


async def test_a_screen_that_is_left_twice_takes_no_other_one_with_it() -> None:
    async with open_setup(first_run=False) as window:
        # What two keys do that were both pressed before the first was seen.
        setup = window.setup
        setup.action_leave()
        setup.action_leave()
        await window.until(lambda: window.in_chat)
        assert window.app.is_running


@pytest.mark.parametrize("key", ["f4", "f2"])
async def test_a_screen_that_is_asked_for_twice_comes_once(key: str, tmp_path: Path) -> None:
    live = LiveSettings(SettingsFile(tmp_path / "settings.toml"))
    async with open_chat(live=live, store=lambda: Store.in_memory(), size=(120, 40)) as chat:
        await chat.exchange("Hello", "Hi")
        hit(chat, key, key, key)
        await chat.until(lambda: len(chat.pilot.app.screen_stack) > 1)
        await chat.pilot.pause()
        assert len(chat.pilot.app.screen_stack) == 2


async def test_the_command_list_is_asked_to_move_before_it_is_there() -> None:
    async with open_chat() as chat:
        hit(chat, "ctrl+p", "pagedown", "pageup", "pagedown")
        await chat.shows("search the commands")
        hit(chat, "escape", "escape", "escape")
        await chat.until(lambda: isinstance(chat.pilot.app.screen, ChatScreen))
        await chat.pilot.pause()
        assert chat.pilot.app.is_running
