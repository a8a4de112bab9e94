"""A prompt that waits for the models while the next one is typed: both stay."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from app.conversations.store import Store
from app.core.errors import AppError
from tests.ui.chat_driver import Chat, open_chat
from tests.ui.kept_driver import kept_chat
from tests.ui.steering_driver import palette, press


async def wait(chat: Chat) -> None:
    """Send a prompt before the models are there, and type the next one."""
    await chat.type("early")
    await press(chat, "enter")
    await chat.shows("waits for the models")
    await chat.type("the next")


def fail(chat: Chat) -> None:
    chat.engine.fails_to_load(AppError("big.gguf is cut short."))


@pytest.mark.parametrize("end", [lambda chat: chat.screen.action_stop(), fail])
async def test_it_comes_back_in_front_of_the_next(end: Callable[[Chat], None]) -> None:
    async with open_chat(loaded=False) as chat:
        await wait(chat)
        end(chat)
        await chat.until(lambda: chat.prompt == "early\nthe next")
        assert chat.screen.pending_text == "early\nthe next"


async def test_it_comes_back_in_front_of_what_waits_beside_a_title(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.exchange("one", "first")
    async with kept_chat(file, loaded=False, again=True) as chat:
        await wait(chat)
        await palette(chat, "Rename")
        assert chat.prompt == "one"
        assert chat.screen.pending_text == "early\nthe next"
        fail(chat)
        await chat.shows("big.gguf is cut short.")
        assert chat.prompt == "one"
        await press(chat, "escape")
        assert chat.prompt == "early\nthe next"


async def test_the_next_is_on_disk_when_it_is_asked(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    monkeypatch.setattr("app.ui.chat.input_mode.STORE_AFTER_S", 0.01)
    store = Store.open(file)
    async with kept_chat(file, loaded=False) as chat:
        await wait(chat)
        await chat.until(lambda: not chat.screen.input_mode._stores_soon)
        chat.engine.loaded()
        await chat.until(lambda: chat.engine.requests)
        await chat.until(lambda: store.load(1).draft == "the next")
    store.close()
