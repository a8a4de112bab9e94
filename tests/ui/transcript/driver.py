"""A chat about a long conversation, for tests."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from app.conversations.message import Role
from app.conversations.store import Store
from app.conversations.tree import Node, State, StoredConversation, Summary, Tree
from app.ui.transcript.message import MessageItem
from tests.ui.driver import Chat, open_chat

MESSAGES = 60
MOST_LAID_OUT = 40
"""Messages within a view height of the view, wherever the reader was."""


def _text(n: int) -> str:
    """Return texts of many heights, some depending on the width."""
    return f"message {n}.\n\n" + ("word " * 40 * (n % 4) if n % 2 else "- item\n" * (n % 7))


@asynccontextmanager
async def long_chat(nodes: list[Node], size: tuple[int, int] = (80, 24)) -> AsyncIterator[Chat]:
    """Open a conversation in a chat."""
    store = Store()
    (number,) = store.insert([StoredConversation(Summary(0, "Long"), Tree({n.id: n for n in nodes}, nodes[-1].id))])
    async with open_chat(store=lambda: store, size=size) as chat:
        await chat.screen.controller.open_conversation(number)
        await chat.until(lambda: chat.screen.view.messages.max_scroll_y > 0)
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
    """The visible rows of the conversation, without the scroll bar."""
    region = chat.screen.view.messages.scrollable_content_region
    return [row[: region.width].rstrip() for row in chat.rows[region.y : region.bottom]]


def laid_out(chat: Chat) -> int:
    return sum(message.is_laid_out for message in chat.screen.view.messages.messages)


def first_visible(chat: Chat) -> int | None:
    """The id of the message in the first row."""
    place = chat.screen.view.messages.place_at(0)
    return place[0].id if place is not None and isinstance(place[0], MessageItem) else None
