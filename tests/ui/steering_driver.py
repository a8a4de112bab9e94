"""A chat whose messages are chosen, changed and answered again, for tests."""

from __future__ import annotations

from pathlib import Path

from app.conversations.store import Store
from app.conversations.tree import State
from app.engine.types import FinishReason
from tests.ui.chat_driver import Chat


def everything(file: Path) -> list[tuple[str, State]]:
    store = Store(file)
    nodes = store.load(1).tree.nodes.values()
    store.close()
    return [(node.text, node.state) for node in nodes]


def asked(chat: Chat) -> list[str]:
    """Return the messages of the last request."""
    return [message.content for message in chat.engine.requests[-1].messages]


async def exchange(chat: Chat, prompt: str, answer: str) -> None:
    await chat.send(prompt)
    await answer_with(chat, answer)


async def answer_with(chat: Chat, text: str, reason: FinishReason = FinishReason.STOP) -> None:
    chat.engine.says(text)
    chat.engine.finishes(reason)
    await chat.ready()
    await chat.shows(text.strip("` "))


async def press(chat: Chat, *keys: str) -> None:
    for key in keys:
        await chat.pilot.press(key)
        await chat.pilot.pause()


async def next_request(chat: Chat, *keys: str) -> None:
    """Press keys that ask the engine for something."""
    count = len(chat.engine.requests)
    await press(chat, *keys)
    await chat.until(lambda: len(chat.engine.requests) > count)


def chosen(chat: Chat) -> str:
    message_view = chat.screen.messages.chosen
    return message_view.text if message_view is not None else ""


def is_chosen(chat: Chat, text: str) -> bool:
    return chosen(chat) == text
