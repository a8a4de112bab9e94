"""Another window in front of the terminal: whoever comes back goes on where they were."""

from __future__ import annotations

from pathlib import Path

from app.conversations.store import Store
from app.ui.transcript.message import UserMessage
from tests.ui.chat_driver import WIDE, open_chat
from tests.ui.conversations_driver import chosen as title
from tests.ui.conversations_driver import fill, filled
from tests.ui.steering_driver import chosen, exchange, is_chosen, press


async def test_a_chosen_message_stays_chosen_and_takes_the_keys() -> None:
    async with open_chat() as chat:
        await exchange(chat, "Hello", "Hi")
        await press(chat, "ctrl+up", "up")
        await chat.look_away()
        assert chosen(chat) == "Hello"
        await chat.come_back()
        assert is_chosen(chat, "Hello")
        await press(chat, "down")
        assert is_chosen(chat, "Hi")
        await press(chat, "escape")
        await chat.until(lambda: not chosen(chat))
        await chat.type("And now?")


async def test_a_message_that_lost_the_keys_meanwhile_is_no_longer_chosen() -> None:
    async with open_chat() as chat:
        await exchange(chat, "Hello", "Hi")
        await press(chat, "ctrl+up")
        await chat.look_away()
        chat.screen.prompt.focus()
        await chat.come_back()
        await chat.until(lambda: not chosen(chat))
        await chat.type("And now?")


async def test_the_keys_go_to_the_prompt_when_what_had_them_has_gone_meanwhile() -> None:
    async with open_chat() as chat:
        await exchange(chat, "Hello", "Hi")
        await press(chat, "ctrl+up", "up")
        await chat.look_away()
        await chat.screen.query_one(UserMessage).remove()
        await chat.come_back()
        await chat.until(lambda: chat.screen.prompt.has_focus)


async def test_a_title_is_gone_on_with(file: Path) -> None:
    fill(file, "rivers")
    async with open_chat(size=WIDE, store=lambda: Store.open(file)) as chat:
        picker = await filled(chat)
        await press(chat, "ctrl+o", "ctrl+r", *" of It")
        await chat.look_away()
        await chat.come_back()
        await press(chat, *"aly", "enter")
        await chat.until(lambda: title(picker) == "rivers of Italy")
        await chat.until(lambda: picker.search_input.has_focus)


async def test_a_title_that_lost_the_keys_meanwhile_stays_the_old_one(file: Path) -> None:
    fill(file, "rivers")
    async with open_chat(size=WIDE, store=lambda: Store.open(file)) as chat:
        picker = await filled(chat)
        await press(chat, "ctrl+o", "ctrl+r", *" of It")
        await chat.look_away()
        chat.screen.prompt.focus()
        await chat.come_back()
        await chat.until(lambda: not picker.has_class("-renames"))
        assert title(picker) == "rivers"
        await chat.type("Hello")
