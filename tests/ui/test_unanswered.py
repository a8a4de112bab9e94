"""Prompts without an answer: the screen shows where they are kept, and so does another start."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.ui.conversations.picker import ConversationPicker
from tests.ui.chat_driver import said
from tests.ui.kept_driver import BESIDE, REFUSAL, WAYS_OUT, answered, is_shown_again, kept_chat, refused
from tests.ui.steering_driver import asked, next_request


@pytest.mark.parametrize("keys", [["ctrl+r"], ["enter"], ["ctrl+up", "r"], ["ctrl+up", "e", "enter"]])
async def test_a_refused_prompt_that_is_asked_again_stands_once(file: Path, keys: list[str]) -> None:
    async with kept_chat(file) as chat:
        await chat.send("one")
        await answered(chat, "first")
        await chat.send("And then?")
        await refused(chat)
        for _ in range(3):
            await chat.until(lambda: chat.prompt == "And then?")
            await next_request(chat, *keys)
            assert asked(chat) == ["one", "first", "And then?"]
            assert chat.prompt == ""
            await refused(chat)
            await chat.until(lambda: said(chat)[4:6] == ["You", "And then?"])
            assert said(chat)[6:] == [*REFUSAL, *WAYS_OUT]
        before = said(chat)
        assert len(chat.screen.session.conversation.tree.nodes) == 3
    await is_shown_again(file, before)


async def test_another_prompt_takes_the_place_of_a_refused_one_which_is_the_branch_beside_it(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.send("one")
        await answered(chat, "first")
        await chat.send("And then?")
        await refused(chat)
        chat.screen.prompt.clear()
        await chat.send("And now?")
        await chat.until(lambda: said(chat)[4:] == [*BESIDE, "You   ◂ 2 / 2 ▸", "And now?", "Answer"])
        await refused(chat)
        await chat.shows("You   ◂ 2 / 2 ▸")
        assert "And then?" not in chat.text
        before = [row for row in said(chat) if row not in BESIDE]
        await chat.pilot.press("ctrl+up", "left", "escape")
        await chat.until(lambda: said(chat)[4:] == ["You   ◂ 1 / 2 ▸", "And then?", *REFUSAL, *WAYS_OUT])
        await chat.pilot.press("ctrl+up", "right", "escape")
        await chat.until(lambda: said(chat) == before)
    await is_shown_again(file, before)


async def test_the_same_words_that_were_answered_before_are_a_prompt_of_their_own(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.send("And then?")
        await answered(chat, "first")
        await chat.send("And then?")
        await refused(chat)
        await next_request(chat, "ctrl+r")
        assert asked(chat) == ["And then?", "first", "And then?"]
        await answered(chat, "second")
        assert said(chat) == ["You", "And then?", "Answer", "first", "You", "And then?", "Answer", "second"]
        before = said(chat)
    await is_shown_again(file, before)


async def test_a_refused_edit_stands_beside_what_was_edited_which_is_one_key_away(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.send("one")
        await answered(chat, "first")
        await chat.send("two")
        await refused(chat)
        await chat.pilot.press("ctrl+up")
        assert chat.screen.messages.chosen is not None
        assert chat.screen.messages.chosen.text == "two"
        await chat.pilot.press("e")
        await chat.type(" more")
        await next_request(chat, "enter")
        assert asked(chat) == ["one", "first", "two more"]
        assert chat.prompt == ""
        await refused(chat)
        await chat.until(lambda: said(chat)[4:] == ["You   ◂ 2 / 2 ▸", "two more", *REFUSAL, *WAYS_OUT])
        before = said(chat)
    await is_shown_again(file, before)


async def test_an_edit_that_changes_nothing_is_another_answer(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.send("one")
        await answered(chat, "first")
        await chat.send("two")
        await answered(chat, "second")
        await chat.pilot.press("ctrl+up", "up", "up", "up", "e")
        await next_request(chat, "enter")
        assert asked(chat) == ["one"]
        await refused(chat)
        assert said(chat) == ["You", "one", "Answer", "first", "You", "two", "Answer", "second"]
        before = said(chat)
    await is_shown_again(file, before)


async def test_a_refused_prompt_is_sent_again_before_the_models_are_loaded(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.send("one")
        await refused(chat)
        before = said(chat)
    async with kept_chat(file, loaded=False) as chat:
        await chat.screen.open_conversation(1)
        await chat.type("one")
        for words in ("one", "two"):
            await chat.pilot.press("enter")
            await chat.until(lambda: said(chat) == ["You", words, "Answer", "waits for the models"])  # noqa: B023
            await chat.pilot.press("escape")
            await chat.until(lambda: said(chat) == before)
            assert chat.prompt == words
            chat.screen.prompt.clear()
            await chat.type("two")
        await chat.pilot.press("enter")
        await chat.shows("waits for the models")
        chat.engine.loaded()
        await chat.until(lambda: chat.engine.requests)
        assert asked(chat) == ["two"]
        await answered(chat, "second")
        await chat.until(lambda: said(chat) == [*BESIDE, "You   ◂ 2 / 2 ▸", "two", "Answer", "second"])


@pytest.mark.parametrize("leave", [["ctrl+n"], ["ctrl+q"]])
async def test_a_prompt_that_was_left_before_its_first_word_says_so(file: Path, leave: list[str]) -> None:
    async with kept_chat(file) as chat:
        await chat.send("one")
        chat.engine.reads(100, 10_000)
        await chat.pilot.press(*leave)
        await chat.pilot.pause()
    async with kept_chat(file) as chat:
        await chat.screen.open_conversation(1)
        told = "stopped" if leave == ["ctrl+n"] else "┃ Tandem ended before the answer began."
        await chat.until(lambda: said(chat)[:4] == ["You", "one", "Answer", told])
        await next_request(chat, "ctrl+r")
        await refused(chat)
        await chat.until(lambda: said(chat) == ["You", "one", *REFUSAL, *WAYS_OUT])
        before = said(chat)
    await is_shown_again(file, before)


async def test_another_prompt_after_one_that_was_left_says_where_that_is_and_gives_the_title(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.send("one")
        chat.engine.reads(100, 10_000)
        await chat.pilot.press("ctrl+q")
        await chat.pilot.pause()
    async with kept_chat(file) as chat:
        await chat.screen.open_conversation(1)
        await chat.shows("Tandem ended before the answer began.")
        await chat.send("two")
        await chat.until(lambda: said(chat) == [*BESIDE, "You   ◂ 2 / 2 ▸", "two", "Answer"])
        assert [summary.title for summary in chat.screen.library.summaries()] == ["two"]
        await answered(chat, "second")
        await chat.pilot.press("ctrl+up", "up", "left")
        await chat.until(lambda: said(chat)[:2] == ["┃You   ◂ 1 / 2 ▸", "┃one"])


async def test_another_prompt_in_the_place_of_an_answered_one_leaves_the_title(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.send("one")
        await answered(chat, "first")
        await chat.pilot.press("ctrl+up", "up", "e")
        await chat.type(" more")
        await next_request(chat, "enter")
        assert said(chat)[:2] == ["You   ◂ 2 / 2 ▸", "one more"]
        assert [summary.title for summary in chat.screen.library.summaries()] == ["one"]


async def test_what_is_found_in_another_branch_is_shown(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.send("the first attempt")
        await refused(chat)
        chat.screen.prompt.clear()
        await chat.send("another one")
        await chat.until(lambda: said(chat) == [*BESIDE, "You   ◂ 2 / 2 ▸", "another one", "Answer"])
        found = ConversationPicker.Chosen(1, 1)
        await chat.screen.switcher.open_found(found)
        await chat.shows("esc stops what is being asked here")
        await answered(chat, "second")
        await chat.screen.switcher.open_found(found)
        await chat.until(lambda: said(chat)[:3] == ["You   ◂ 1 / 2 ▸", "the first attempt", "Answer"])
        await next_request(chat, "ctrl+r")
        assert asked(chat) == ["the first attempt"]


async def test_a_refusal_leaves_the_context_as_full_as_it_was(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.send("one")
        await answered(chat, "first")
        await chat.until(lambda: chat.screen.status.used_tokens == "2.1k")
        await chat.send("two")
        await refused(chat)
        await chat.until(lambda: chat.status.startswith("ready"))
        assert chat.screen.status.used_tokens == "2.1k"


async def test_half_a_character_that_was_pasted_is_shown_as_it_is_kept(file: Path) -> None:
    async with kept_chat(file) as chat:
        chat.screen.prompt.load_text("\ud800 one")
        await next_request(chat, "enter")
        assert asked(chat) == ["? one"]
        await refused(chat)
        await chat.until(lambda: said(chat)[1] == "? one")
        before = said(chat)
    await is_shown_again(file, before)
