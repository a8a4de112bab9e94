"""A chat about a long conversation, for tests: what of it is mounted and what is seen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from textual import events

from app.conversations.message import Role
from app.conversations.store import Store
from app.conversations.tree import Conversation, Node, State, Summary, Transcript, Tree
from app.ui.transcript.message_view import MessageView
from tests.ui.chat_driver import Chat, open_chat

MESSAGES = 60
MOST_MOUNTED = 30
"""What is near, three windowfuls of 17 rows on either side, what was left behind, and the last exchange."""


def _text(n: int) -> str:
    """Texts of many heights, one of each the same at every width and one not."""
    return f"message {n}.\n\n" + ("word " * 40 * (n % 4) if n % 2 else "- item\n" * (n % 7))


@asynccontextmanager
async def long_chat(nodes: list[Node], size: tuple[int, int] = (80, 24)) -> AsyncIterator[Chat]:
    """A chat that has opened a conversation."""
    store = Store.in_memory()
    (number,) = store.insert(
        [Transcript(Conversation(Summary(0, "Long"), Tree({n.id: n for n in nodes}, nodes[-1].id)))]
    )
    async with open_chat(store=lambda: store, size=size) as chat:
        await chat.screen.open_conversation(number)
        await chat.until(lambda: chat.screen.messages.max_scroll_y > 0)
        yield chat


def path(count: int = MESSAGES, first: str = "", reasoning: str = "") -> list[Node]:
    return [
        Node(
            n,
            n - 1 or None,
            Role.USER if n % 2 else Role.ASSISTANT,
            first if first and n == 1 else _text(n),
            "" if n % 2 else reasoning,
            State.COMPLETE,
            float(n),
        )
        for n in range(1, count + 1)
    ]


def body(chat: Chat) -> list[str]:
    """The rows of the conversation that are seen, without the scroll bar."""
    region = chat.screen.messages.scrollable_content_region
    return [row[: region.width].rstrip() for row in chat.rows[region.y : region.bottom]]


async def settled(chat: Chat) -> None:
    """Wait until what is near is mounted and laid out."""
    for _ in range(5):
        drawn = asyncio.Event()
        chat.screen.messages.call_after_refresh(drawn.set)
        await drawn.wait()


async def press(chat: Chat, *keys: str) -> None:
    """Press keys, one when all is drawn that came of the last; the pilot would wait for the processor to rest."""
    for key in keys:
        chat.pilot.app.post_message(events.Key(key, None))
        await chat.had_turn()
        await settled(chat)


def mounted(chat: Chat) -> int:
    return len(chat.screen.query(MessageView))


def blank(chat: Chat) -> bool:
    """Whether rows are seen in place of messages."""
    messages = chat.screen.messages
    top, height = round(messages.scroll_y), messages.scrollable_content_region.height
    return messages.column.lacks(messages.column.between(top, top + height))
