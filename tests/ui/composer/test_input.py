"""The prompt: lines, growth, recall, pasting."""

from __future__ import annotations

import unicodedata

from textual import events

from tests.ui.driver import open_chat


async def test_ctrl_j_breaks_the_line_and_enter_sends_both() -> None:
    async with open_chat() as chat:
        await chat.pilot.press(*"one", "ctrl+j", *"two", "enter")
        await chat.until(lambda: chat.engine.requests)
        assert chat.engine.requests[0].messages[-1].content == "one\ntwo"


async def test_it_grows_to_eight_lines() -> None:
    async with open_chat() as chat:
        assert chat.screen.view.prompt.size.height == 1
        await chat.pilot.press("a", "ctrl+j", "b")
        await chat.until(lambda: chat.screen.view.prompt.size.height == 2)
        await chat.pilot.press(*["ctrl+j"] * 12)
        await chat.until(lambda: chat.screen.view.prompt.size.height == 8)
        await chat.pilot.press("enter")
        await chat.until(lambda: chat.screen.view.prompt.size.height == 1)


async def test_up_recalls_what_was_sent_and_down_leads_back() -> None:
    async with open_chat() as chat:
        for prompt in ("first", "second"):
            await chat.exchange(prompt, "ok")
        await chat.pilot.press("up")
        assert chat.prompt == "second"
        await chat.pilot.press("up")
        assert chat.prompt == "first"
        await chat.pilot.press("down", "down")
        assert chat.prompt == ""
        await chat.pilot.press(*"typed", "up")
        assert chat.prompt == "typed"


async def test_blank_prompts_are_not_sent() -> None:
    async with open_chat() as chat:
        await chat.pilot.press("space", "enter")
        await chat.pilot.pause()
        assert chat.engine.requests == []


async def test_pasted_control_characters_are_dropped() -> None:
    async with open_chat() as chat:
        chat.pilot.app.post_message(events.Paste("a\x1b[31mb\r\nc"))
        await chat.until(lambda: chat.prompt)
        assert chat.prompt == "a[31mb\nc"


async def test_characters_without_ink_are_typed_like_others_but_none_that_hides_something() -> None:
    wanted = "東京\u3000می\u200cروم\xa0👩\u200d👧"
    async with open_chat() as chat:
        for character in wanted + "\u202e\x07":
            chat.pilot.app.post_message(events.Key(unicodedata.name(character, "key").lower(), character))
        await chat.pilot.press("end", "enter")
        await chat.until(lambda: chat.engine.requests)
        assert chat.engine.requests[0].messages[-1].content == wanted
