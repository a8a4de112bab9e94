"""Long conversations: only messages near the reader are laid out, and visible text keeps its position."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from textual.scrollbar import ScrollBar

from app.conversations.attached import Attachment, compose
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


async def test_every_message_is_passed_in_order() -> None:
    async with long_chat(path()) as chat:
        await chat.shows(f"message {MESSAGES}.")
        seen: list[str] = []
        for _ in range(200):
            found = [row.split()[1] for row in body(chat) if row.strip().startswith("message ")]
            seen += [each for each in reversed(found) if each not in seen[-12:]]
            if "1." in found:
                break
            await chat.press("pageup")
        assert seen == [f"{n}." for n in range(MESSAGES, 0, -1)]


async def test_a_page_down_and_up_leads_back() -> None:
    async with long_chat(path()) as chat:
        await chat.press("pageup", "pageup")
        for _ in range(4):
            await chat.press("pageup")
            above = body(chat)
            await chat.press("pagedown")
            assert body(chat) != above
            await chat.press("pageup")
            assert body(chat) == above


async def test_one_key_goes_to_the_first_or_last_message() -> None:
    async with long_chat(path()) as chat:
        await chat.shows(f"message {MESSAGES}.")
        await chat.press("ctrl+home", shows="message 1.")
        assert chat.screen.view.messages.scroll_y == 0
        assert not chat.screen.view.messages.shows_end
        assert laid_out(chat) < MOST_LAID_OUT
        await chat.press("ctrl+end", shows=f"message {MESSAGES}.")
        assert chat.screen.view.messages.shows_end


async def test_visible_text_stays_while_an_answer_grows() -> None:
    async with long_chat(path()) as chat:
        await chat.send("go on")
        answer = chat.screen.view.messages.answer
        await chat.press("ctrl+home", shows="message 1.")
        await chat.press("pagedown", "pagedown")
        before = body(chat)
        for n in range(5):
            chat.engine.says(f"line {n}\n\n" * 30)
            await chat.pilot.pause()
        await chat.shows("↓ new text below (ctrl+end)")
        assert body(chat) == before
        assert answer is not None
        assert answer.is_laid_out
        await chat.press("ctrl+end", shows="line 4")
        await chat.until(lambda: "new text below" not in chat.text)
        await chat.answer("the end")
        await chat.shows("the end")


async def test_the_scrollbar_grows_in_the_same_drawing_as_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    async with long_chat(path()) as chat:
        await chat.send("Another one.")
        chat.engine.says("one\n\n")
        await chat.shows("one")
        view, refreshed = chat.screen.view.messages, list[ScrollBar]()
        monkeypatch.setattr(ScrollBar, "refresh", lambda self, *args, **named: refreshed.append(self))
        chat.engine.says("two\n\nthree\n\n")
        await chat.shows("three")
        bar = view.vertical_scrollbar
        assert (bar.window_virtual_size, bar.position) == (view.virtual_size.height, view.scroll_y)
        assert not refreshed


async def test_a_resize_keeps_the_first_visible_message() -> None:
    async with long_chat(path(), size=(120, 40)) as chat:
        await chat.press("ctrl+home", *["pagedown"] * 4)
        first = first_visible(chat)
        await chat.pilot.resize_terminal(60, 30)
        await chat.pilot.pause()
        assert first_visible(chat) == first


async def test_keys_select_messages_that_are_not_laid_out() -> None:
    async with long_chat(path()) as chat:
        await chat.press("ctrl+up")
        chat.hit("", *["up"] * 25)
        await chat.until(lambda: (s := chat.screen.view.messages.chosen) is not None and s.id == MESSAGES - 25)
        await chat.shows(f"message {MESSAGES - 25}.")


async def test_the_prompt_takes_the_keys_when_the_selected_message_is_far_away() -> None:
    async with long_chat(path()) as chat:
        await chat.press("ctrl+up", "ctrl+home", shows="message 1.")
        await chat.type("next")
        await chat.next_request("enter")


async def test_a_found_message_is_scrolled_to_the_top() -> None:
    nodes = path()
    nodes[20] = replace(nodes[20], text="a needle" + nodes[20].text)
    async with long_chat(nodes) as chat:
        await chat.list_conversations()
        chat.hit("needle")
        await chat.shows("a needle")
        await chat.in_front("enter")
        await chat.until(lambda: "a needle" in "".join(body(chat)[:4]))
        assert not chat.screen.view.messages.shows_end
        assert chat.screen.view.messages.is_seeking


async def test_branches_are_switched_from_a_message_far_up() -> None:
    nodes = path()
    nodes.insert(2, Node(1000, 1, Role.ASSISTANT, "the other answer", "", State.COMPLETE, 2.5))
    async with long_chat(nodes) as chat:
        await chat.shows(f"message {MESSAGES}.")
        await chat.press("ctrl+home", shows="Answer   ◂ 1 / 2 ▸")
        chat.screen.view.messages.choose(chat.screen.view.messages.messages[1])
        await chat.press("right", shows="the other answer")
        await chat.until(lambda: chat.n_messages == 2)
        await chat.press("left", shows="Answer   ◂ 1 / 2 ▸")
        await chat.until(lambda: chat.n_messages == MESSAGES)
        await chat.shows("message 2.")
        await chat.pilot.pause()
        assert laid_out(chat) < MOST_LAID_OUT


async def test_a_branch_that_replaces_visible_messages_is_shown_in_their_place() -> None:
    async with long_chat(path()) as chat:
        await chat.press("ctrl+home", "pagedown", "pagedown")
        messages, before, number = chat.screen.view.messages, body(chat), first_visible(chat)
        assert number is not None
        messages.show([*path()[: number - 1], *(replace(node, id=1000 + node.id) for node in path()[number - 1 :])])
        await chat.pilot.pause()
        assert first_visible(chat) == 1000 + number
        assert body(chat) == before


async def test_one_key_unfolds_the_reasoning_of_every_answer() -> None:
    first = compose("look at this @notes", (Attachment("notes", "the contents"),))
    async with long_chat(path(first=first, reasoning="deep thought")) as chat:
        await chat.press("ctrl+t", "ctrl+home", shows="look at this")
        await chat.shows("deep thought")
        await chat.click("notes", shows="the contents")


async def test_a_growing_answer_costs_the_same_below_many_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    async with long_chat(path()) as chat:
        await chat.send("go on")
        chat.engine.says("one ")
        await chat.shows("one")
        asked: list[MessageItem] = []
        n_lines = MessageItem.n_lines

        def noted(self: MessageItem, width: int) -> int:
            asked.append(self)
            return n_lines(self, width)

        monkeypatch.setattr(MessageItem, "n_lines", noted)
        chat.engine.says("two")
        await chat.shows("one two")
        assert set(asked) == {chat.screen.view.messages.answer}


async def test_a_change_of_a_message_that_has_left_is_not_drawn() -> None:
    async with open_chat() as chat:
        await chat.exchange("What is a cat?", "An animal.")
        left = chat.screen.view.messages.items[0]
        await chat.press("ctrl+n", until=lambda: left not in chat.screen.view.messages.items)
        before = chat.rows
        chat.screen.view.messages.update(left)
        assert chat.rows == before
