"""Going to a message that is not mounted: a branch far up, a chosen one, what a search finds."""

from __future__ import annotations

from dataclasses import replace

import pytest
from textual import events

from app.conversations.message import Role
from app.conversations.tree import Node, State
from app.ui.transcript.message import AnswerMessage, UserMessage
from app.ui.transcript.message_view import MessageView
from tests.ui.chat_driver import n_said
from tests.ui.conversations_driver import back, look
from tests.ui.transcript.driver import (
    MESSAGES,
    MOST_MOUNTED,
    body,
    long_chat,
    mounted,
    path,
    press,
    settled,
)

pytestmark = pytest.mark.usefixtures("near")


async def test_a_branch_is_gone_to_from_a_message_far_up() -> None:
    nodes = path()
    nodes.insert(2, Node(1000, 1, Role.ASSISTANT, "the other answer", "", State.COMPLETE, 2.5))
    async with long_chat(nodes) as chat:
        await chat.shows(f"message {MESSAGES}.")
        await press(chat, "ctrl+home")
        await chat.shows("Answer   ◂ 1 / 2 ▸")
        chat.screen.messages.choose(chat.screen.messages.message_views[1])
        await press(chat, "right")
        await chat.shows("the other answer")
        await chat.until(lambda: n_said(chat) == 2)
        await press(chat, "left")
        await chat.shows("Answer   ◂ 1 / 2 ▸")
        await chat.until(lambda: n_said(chat) == MESSAGES)
        await chat.shows("message 2.")
        await settled(chat)
        assert mounted(chat) < MOST_MOUNTED


async def test_what_takes_the_place_of_what_is_seen_is_seen_there() -> None:
    async with long_chat(path()) as chat:
        await press(chat, "ctrl+home", "pagedown", "pagedown")
        messages, before = chat.screen.messages, body(chat)
        first = messages.column.at(messages.scroll_y)
        assert first is not None
        assert first.message_view is not None
        number = first.node or 0
        await messages.show(
            [*path()[: number - 1], *(replace(node, id=1000 + node.id) for node in path()[number - 1 :])]
        )
        await settled(chat)
        again = messages.column.at(messages.scroll_y)
        assert again is not None
        assert again.node == 1000 + number
        assert body(chat) == before


@pytest.mark.parametrize("kind", [UserMessage, AnswerMessage])
async def test_a_message_that_is_not_mounted_is_reached(kind: type[MessageView]) -> None:
    async with long_chat(path()) as chat:
        await settled(chat)
        wanted = 3 if kind is UserMessage else 4
        assert all(message_view.node != wanted for message_view in chat.screen.messages.message_views)
        message_view = await chat.screen.messages.reach(wanted)
        assert isinstance(message_view, kind)
        assert message_view.text.startswith(f"message {wanted}.")
        assert await chat.screen.messages.reach(10_000) is None


async def test_what_a_search_finds_is_brought_in_sight() -> None:
    nodes = path()
    nodes[20] = replace(nodes[20], text="a needle" + nodes[20].text)
    async with long_chat(nodes) as chat:
        await look(chat)
        for character in "needle":
            chat.pilot.app.post_message(events.Key(character, character))
        await chat.shows("a needle")
        await chat.pilot.press("enter")
        await back(chat)
        await chat.until(lambda: "a needle" in "".join(body(chat)[:4]))
        assert not chat.screen.messages.following
        assert chat.screen.prompt.has_focus
