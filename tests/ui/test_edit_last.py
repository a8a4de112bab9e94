"""ctrl+e: the last prompt, changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ui.chat_driver import open_chat
from tests.ui.kept_driver import kept_chat
from tests.ui.steering_driver import asked, chosen, exchange, next_request, press


async def test_the_last_prompt_is_edited_wherever_it_stands(file: Path) -> None:
    async with kept_chat(file, size=(80, 24)) as chat:
        await exchange(chat, "one", "first")
        await chat.exchange("two", "line\n\n" * 60 + "second")
        await press(chat, "ctrl+e")
        await chat.shows("Editing: enter asks it as a branch")
        assert chat.prompt == "two"
        assert not chosen(chat)
        await chat.until(lambda: any(row.startswith("┃two") for row in chat.rows))
        await chat.type(" more")
        await next_request(chat, "enter")
        assert asked(chat) == ["one", "first", "two more"]


@pytest.fixture
def slow_hints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.ui.widgets.hint._SECONDS", 600.0)


@pytest.mark.usefixtures("slow_hints")
async def test_what_is_typed_keeps_the_key_until_it_is_pressed_twice_at_the_end(file: Path) -> None:
    async with kept_chat(file) as chat:
        await exchange(chat, "one", "first")
        await chat.type("ab")
        await press(chat, "home", "ctrl+e", "c")
        assert chat.prompt == "abc"
        assert "ctrl+e again" not in chat.text
        await press(chat, "ctrl+s", "ctrl+e", "ctrl+e", "escape")
        assert chat.prompt == "abc"
        await press(chat, "ctrl+e")
        await chat.shows("ctrl+e again edits the last prompt; what is typed comes back after that.")
        await press(chat, "d", "home", "ctrl+e")
        assert chat.prompt == "abcd"
        assert not chat.screen.input_mode.is_active
        await press(chat, "ctrl+e")
        await chat.shows("Editing: enter asks it as a branch")
        assert chat.prompt == "one"
        await press(chat, "escape")
        assert chat.prompt == "abcd"


async def test_it_asks_again_once_that_is_no_longer_said(file: Path) -> None:
    async with kept_chat(file) as chat:
        await exchange(chat, "one", "first")
        await chat.type("two")
        await press(chat, "ctrl+e")
        chat.screen.hint.forget()
        await press(chat, "ctrl+e")
        await chat.shows("ctrl+e again edits the last prompt")
        assert not chat.screen.input_mode.is_active


async def test_who_goes_to_the_end_of_the_line_hears_nothing_where_nothing_can_be_edited(file: Path) -> None:
    async with open_chat() as chat:
        await chat.type("two")
        await press(chat, "ctrl+e")
        assert "no prompt to edit" not in chat.text
    async with kept_chat(file) as chat:
        await chat.send("one")
        await chat.type("two")
        await press(chat, "ctrl+e")
        assert "is being written" not in chat.text


async def test_what_is_typed_to_find_a_prompt_keeps_the_key(file: Path) -> None:
    async with kept_chat(file) as chat:
        await exchange(chat, "one", "first")
        await press(chat, "ctrl+s", "o", "home", "ctrl+e", "n")
        assert chat.prompt == "on"
        assert not chat.screen.input_mode.is_active


async def test_it_says_why_there_is_nothing_to_edit_or_not_now(file: Path) -> None:
    async with open_chat() as chat:
        await press(chat, "ctrl+e")
        await chat.shows("There is no prompt to edit.")
    async with kept_chat(file) as chat:
        await chat.send("one")
        await press(chat, "ctrl+e")
        await chat.shows("An answer is being written; esc stops it.")
        assert not chat.screen.input_mode.is_active
