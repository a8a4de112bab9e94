"""Long conversations: only what is near is mounted, and what is seen stays where it is."""

from __future__ import annotations

import asyncio

import pytest
from textual import events

from app.ui.transcript.message_view import MessageView
from tests.ui.transcript.driver import (
    MESSAGES,
    MOST_MOUNTED,
    blank,
    body,
    long_chat,
    mounted,
    path,
    press,
    settled,
)

pytestmark = pytest.mark.usefixtures("near")


async def test_only_what_is_near_is_mounted_wherever_one_looks() -> None:
    async with long_chat(path()) as chat:
        await chat.shows(f"message {MESSAGES}.")
        for key in ["pageup"] * 12 + ["ctrl+home"] + ["pagedown"] * 12 + ["ctrl+end"]:
            await press(chat, key)
            assert mounted(chat) < MOST_MOUNTED
            assert not blank(chat)
        assert f"message {MESSAGES}." in chat.text


async def test_pages_that_were_just_read_are_still_there() -> None:
    async with long_chat(path()) as chat:
        for _ in range(3):
            await press(chat, "pageup")
        there = set(chat.screen.query(MessageView))
        for key in ["pagedown"] * 2 + ["pageup"] * 2:
            await press(chat, key)
            assert not blank(chat)
            await settled(chat)
        assert there <= set(chat.screen.query(MessageView))


async def test_paging_up_and_down_passes_every_message_in_order() -> None:
    async with long_chat(path(30)) as chat:
        await chat.shows("message 30.")
        seen: list[str] = []
        for _ in range(100):
            found = [row.split()[1] for row in body(chat) if row.strip().startswith("message ")]
            seen += [each for each in reversed(found) if each not in seen[-12:]]
            if "1." in found:
                break
            await press(chat, "pageup")
        assert seen == [f"{n}." for n in range(30, 0, -1)]
        while not chat.screen.messages.following:
            await press(chat, "pagedown")
        assert "message 30." in chat.text


async def test_a_page_down_and_up_leads_back_though_guesses_are_wrong() -> None:
    async with long_chat(path()) as chat:
        await press(chat, "pageup", "pageup")
        for _ in range(8):
            await press(chat, "pageup")
            above = body(chat)
            await press(chat, "pagedown")
            assert body(chat) != above
            await press(chat, "pageup")
            assert body(chat) == above


async def test_the_first_and_the_last_message_are_one_key_away() -> None:
    async with long_chat(path()) as chat:
        await chat.shows(f"message {MESSAGES}.")
        await press(chat, "ctrl+home")
        await chat.shows("message 1.")
        assert chat.screen.messages.scroll_y == 0
        assert not chat.screen.messages.following
        assert mounted(chat) < MOST_MOUNTED
        await press(chat, "ctrl+end")
        await chat.shows(f"message {MESSAGES}.")
        assert chat.screen.messages.following


async def test_what_is_seen_stays_while_an_answer_grows_and_is_never_unmounted() -> None:
    async with long_chat(path()) as chat:
        await chat.send("go on")
        answer = chat.screen.messages.answer
        await press(chat, "ctrl+home")
        await chat.shows("message 1.")
        await press(chat, "pagedown", "pagedown")
        before = body(chat)
        for n in range(5):
            chat.engine.says(f"line {n}\n\n" * 30)
            await settled(chat)
        await chat.shows("↓ new text below")
        assert body(chat) == before
        assert chat.screen.messages.answer is answer
        assert answer is not None
        assert answer.is_attached
        await press(chat, "ctrl+end")
        await chat.shows("line 4")
        await chat.until(lambda: "new text below" not in chat.text)
        chat.engine.says("the end")
        chat.engine.finishes()
        await chat.ready()
        await chat.shows("the end")


async def test_a_resize_keeps_the_first_message_in_sight() -> None:
    async with long_chat(path(), size=(120, 40)) as chat:
        await press(chat, "ctrl+home", *["pagedown"] * 4)
        messages = chat.screen.messages
        first = messages.column.at(messages.scroll_y)
        assert first is not None
        await chat.pilot.resize_terminal(60, 30)
        await settled(chat)
        assert messages.column.at(messages.scroll_y) is first
        assert not blank(chat)


async def test_a_chosen_message_stays_and_its_neighbor_is_mounted_for_the_keys() -> None:
    async with long_chat(path()) as chat:
        await press(chat, "ctrl+home")
        await chat.shows("message 1.")
        first = chat.screen.messages.message_views[0]
        chat.screen.messages.choose(first)
        await press(chat, "ctrl+end")
        await chat.shows(f"message {MESSAGES}.")
        await settled(chat)
        assert chat.screen.messages.chosen is first
        assert mounted(chat) < MOST_MOUNTED
        await press(chat, "down")
        await chat.until(lambda: (s := chat.screen.messages.chosen) is not None and s.text.startswith("message 2."))
        await chat.shows("message 2.")


async def test_a_message_that_is_being_changed_stays_mounted() -> None:
    async with long_chat(path()) as chat:
        await press(chat, "ctrl+up", "up", "up", "up")
        changed = chat.screen.messages.chosen
        assert changed is not None
        await press(chat, "e")
        await chat.until(lambda: changed.has_class("-changed"))
        await press(chat, "ctrl+home", "pagedown")
        assert changed.is_attached
        assert mounted(chat) < MOST_MOUNTED
        await press(chat, "escape")
        assert not changed.has_class("-changed")


async def test_every_key_counts_where_messages_are_not_mounted() -> None:
    async with long_chat(path()) as chat:
        await press(chat, "ctrl+up")
        for _ in range(25):
            chat.pilot.app.post_message(events.Key("up", None))
        await chat.until(lambda: (s := chat.screen.messages.chosen) is not None and s.node == MESSAGES - 25)
        await chat.shows(f"message {MESSAGES - 25}.")


async def test_blank_rows_stand_for_what_is_not_mounted() -> None:
    async with long_chat(path()) as chat:
        await settled(chat)
        messages = chat.screen.messages
        first = next(entry for entry in messages.column.entries if entry.message_view is not None)
        assert messages.column.top_of(first) > 10 * len(body(chat))
        assert messages.max_scroll_y == messages.said.rows - messages.scrollable_content_region.height


@pytest.mark.parametrize("moment", [0, 1, 3, 10])
async def test_the_application_may_end_while_messages_are_being_mounted(moment: int) -> None:
    async with long_chat(path()) as chat:
        mounting = asyncio.create_task(chat.screen.messages.reach(3))
        for _ in range(moment):
            await asyncio.sleep(0)
        chat.pilot.app.exit()
        await mounting
