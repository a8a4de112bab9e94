"""What was asked or refused comes back into the line as it was typed."""

from __future__ import annotations

from pathlib import Path

from app.engine.types import FinishReason
from tests.ui.kept_driver import kept_chat
from tests.ui.steering_driver import (
    answer_with,
    asked,
    exchange,
    next_request,
    palette,
    press,
)


async def test_only_what_was_asked_is_offered_as_a_past_prompt(file: Path) -> None:
    async with kept_chat(file) as chat:
        await exchange(chat, "one", "first")
        await press(chat, "ctrl+up", "e")
        await chat.type(" changed")
        await press(chat, "enter")
        await chat.shows("first changed")
        await palette(chat, "Rename")
        await chat.type(" title")
        await press(chat, "enter")
        await chat.shows("is called")
        await press(chat, "up")
        assert chat.prompt == "one"
        await press(chat, "down", "ctrl+up", "up", "e")
        await chat.type(" more")
        await next_request(chat, "enter")
        await answer_with(chat, "second")
        await press(chat, "up")
        assert chat.prompt == "one more"


async def test_a_prompt_that_begins_with_a_slash_comes_back_as_it_was_typed(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.send("//help me")
        assert asked(chat) == ["/help me"]
        chat.engine.finishes(FinishReason.CANCELLED)
        await chat.until(lambda: chat.prompt == "//help me")
        await next_request(chat, "ctrl+r")
        assert chat.prompt == ""
        await answer_with(chat, "first")
        await press(chat, "ctrl+up", "up", "e")
        assert chat.prompt == "//help me"
        await next_request(chat, "enter")
        assert asked(chat) == ["/help me"]
        await answer_with(chat, "second")
    async with kept_chat(file) as chat:
        await chat.until(lambda: chat.screen.library.is_open)
        await press(chat, "up")
        assert chat.prompt == "//help me"


async def test_a_refused_command_comes_back_as_it_was_typed(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.type("/draft maybe")
        await press(chat, "enter")
        await chat.shows("Give it as /draft")
        assert chat.prompt == "/draft maybe"
