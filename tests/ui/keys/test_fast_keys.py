"""Keys that come twice, or before what they are for is there."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual import events

from app.conversations.store import Store
from app.settings.file import SettingsFile
from app.settings.live import LiveSettings
from app.ui.composer.input import PromptInput
from app.ui.screens.chat import ChatScreen
from app.ui.terminal.driver import InputParser
from tests.ui.chat_driver import Chat, open_chat
from tests.ui.models.driver import open_setup


def hit(chat: Chat, *keys: str) -> None:
    """Keys that arrive at once; nothing is waited for."""
    for key in keys:
        chat.pilot.app.post_message(events.Key(key, None))


async def test_leaving_a_screen_twice_closes_only_that_screen() -> None:
    async with open_setup(first_run=False) as window:
        # What two keys do that were both pressed before the first was seen.
        setup = window.setup
        setup.action_leave()
        setup.action_leave()
        await window.until(lambda: window.in_chat)
        assert window.app.is_running


@pytest.mark.parametrize("key", ["f4", "f2"])
async def test_a_key_pressed_twice_opens_one_screen(key: str, tmp_path: Path) -> None:
    live = LiveSettings(SettingsFile(tmp_path / "settings.toml"))
    async with open_chat(live=live, store=lambda: Store(), size=(120, 40)) as chat:
        await chat.exchange("Hello", "Hi")
        hit(chat, key, key, key)
        await chat.until(lambda: len(chat.pilot.app.screen_stack) > 1)
        await chat.pilot.pause()
        assert len(chat.pilot.app.screen_stack) == 2


async def test_keys_before_the_palette_is_shown_are_harmless() -> None:
    async with open_chat() as chat:
        hit(chat, "ctrl+p", "pagedown", "pageup", "pagedown")
        await chat.shows("search the commands")
        hit(chat, "escape", "escape", "escape")
        await chat.until(lambda: isinstance(chat.pilot.app.screen, ChatScreen))
        await chat.pilot.pause()
        assert chat.pilot.app.is_running


async def test_text_enter_and_the_next_text_at_once_send_the_first() -> None:
    async with open_chat() as chat:
        for key in ("o", "n", "e", "enter", "t", "w", "o"):
            chat.pilot.app.post_message(events.Key(key, key if len(key) == 1 else None))
        await chat.until(lambda: chat.engine.requests)
        await chat.until(lambda: chat.prompt == "two")
        assert chat.engine.requests[0].messages[-1].content == "one"


async def test_text_with_alt_is_text_and_stops_no_answer() -> None:
    async with open_chat() as chat:
        await chat.send("Hello")
        parser = InputParser()
        for event in [*parser.feed("\x1b.x"), *parser.feed("")]:
            chat.pilot.app.post_message(event)
        await chat.until(lambda: chat.prompt == ".x")
        assert not chat.engine.cancelled


@pytest.mark.parametrize(
    ("sequence", "text", "cursor"),
    [
        ("\x1bb", "one two", (0, 4)),
        ("\x1bb\x1bb\x1bf", "one two", (0, 3)),
        ("\x1bb\x1bd", "one ", (0, 4)),
        ("\x1b\x7f", "one ", (0, 4)),
        ("\x1b\r", "one two\n", (1, 0)),
    ],
    ids=["word left", "word right", "delete word right", "delete word left", "new line"],
)
async def test_alt_does_in_the_prompt_what_it_does_in_shells_and_stops_no_answer(
    sequence: str, text: str, cursor: tuple[int, int]
) -> None:
    async with open_chat() as chat:
        await chat.send("Hello")
        await chat.type("one two")
        parser = InputParser()
        for event in [*parser.feed(sequence), *parser.feed("")]:
            chat.pilot.app.post_message(event)
        prompt = chat.screen.query_one(PromptInput)
        await chat.until(lambda: (chat.prompt, prompt.cursor_location) == (text, cursor))
        assert not chat.engine.cancelled


async def test_an_own_key_with_alt_is_no_text() -> None:
    async with open_chat() as chat:
        chat.pilot.app.set_keymap({"chat.tokens": "alt+k"})
        before = chat.text
        for event in [*(parser := InputParser()).feed("\x1bk"), *parser.feed("")]:
            chat.pilot.app.post_message(event)
        await chat.until(lambda: chat.text != before)
        assert chat.prompt == ""
