"""Another answer, or more of one, that comes to nothing: what was there before stays, and so it is at another start."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.engine.stats import GenerationStats
from app.engine.types import FinishReason
from tests.ui.chat_driver import said
from tests.ui.kept_driver import BESIDE, BROKEN, answered, is_shown_again, kept_chat, refused
from tests.ui.steering_driver import asked, next_request


@pytest.mark.parametrize("keys", [["ctrl+r"], ["ctrl+up", "up", "up", "up", "r"]])
@pytest.mark.parametrize("half", ["", "half of it"])
async def test_another_answer_that_fails_gives_way_to_what_was_there(file: Path, half: str, keys: list[str]) -> None:
    async with kept_chat(file) as chat:
        await chat.send("one")
        await answered(chat, "first")
        await chat.send("two")
        await answered(chat, "second")
        await next_request(chat, *keys)
        if half:
            chat.engine.says(half)
        await refused(chat, BROKEN)
        await chat.shows("llama.cpp failed. Load a smaller pair.")
        branches = "   ◂ 1 / 2 ▸" if half else ""
        early, late = ("", branches) if len(keys) == 1 else (branches, "")
        assert said(chat) == ["You", "one", f"Answer{early}", "first", "You", "two", f"Answer{late}", "second"]
        assert chat.prompt == ""
        before = said(chat)
        # It is gone on from as it was before.
        await chat.send("three")
        assert asked(chat) == ["one", "first", "two", "second", "three"]
        await chat.until(lambda: "llama.cpp failed." not in chat.text)
        await answered(chat, "third")
        before += ["You", "three", "Answer", "third"]
        await chat.until(lambda: said(chat) == before)
    await is_shown_again(file, before)


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        (FinishReason.CANCELLED, "Nothing came of it: stopped."),
        (FinishReason.STOP, "Nothing came of it: the model said nothing."),
    ],
)
async def test_another_answer_without_a_word_leaves_no_place(file: Path, reason: FinishReason, told: str) -> None:
    async with kept_chat(file) as chat:
        await chat.send("one")
        await answered(chat, "first")
        await next_request(chat, "ctrl+r")
        await answered(chat, "", reason)
        await chat.shows(told)
        assert said(chat) == ["You", "one", "Answer", "first"]
        before = said(chat)
    await is_shown_again(file, before)


async def test_another_answer_of_thoughts_alone_is_told_as_that(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.send("one")
        await answered(chat, "first")
        await next_request(chat, "ctrl+r")
        chat.engine.says("Hm.", thinking=True)
        chat.engine.finishes()
        await chat.shows("Nothing came of it: the model thought, and gave no answer.")


async def test_an_answer_that_failed_on_its_way_stands_in_the_place_of_a_refusal(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.send("one")
        await refused(chat)
        await next_request(chat, "ctrl+r")
        chat.engine.says("half of it")
        await refused(chat, BROKEN)
        await chat.shows("ctrl+g continues")
        assert "272 tokens" not in chat.text
        before = said(chat)
    await is_shown_again(file, before)


async def test_an_answer_that_failed_on_its_way_gives_way_to_the_answer_to_another_prompt(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.send("one")
        chat.engine.says("half of it")
        await refused(chat, BROKEN)
        chat.screen.prompt.clear()
        await chat.send("two")
        assert asked(chat) == ["two"]
        await answered(chat, "second")
        before = ["You   ◂ 2 / 2 ▸", "two", "Answer", "second"]
        assert said(chat) == [*BESIDE, *before]
    await is_shown_again(file, before)


@pytest.mark.parametrize("more", ["", " three"])
async def test_a_continuation_that_is_refused_leaves_the_answer_as_it_was(file: Path, more: str) -> None:
    async with kept_chat(file) as chat:
        await chat.send("count")
        await answered(chat, "one two", FinishReason.LENGTH)
        await next_request(chat, "ctrl+g")
        if more:
            chat.engine.says(more)
        await refused(chat)
        await chat.shows("With this prompt the conversation has 272 tokens")
        assert said(chat) == [
            "You", "count", "Answer", f"one two{more}", "cut at the token limit; ctrl+g continues"
        ]  # fmt: skip
        before = said(chat)
    await is_shown_again(file, before)


async def test_a_continuation_that_is_stopped_at_once_leaves_the_answer_as_it_was(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.send("count")
        chat.engine.says("one two")
        await refused(chat, BROKEN)
        before = said(chat)
        await next_request(chat, "ctrl+g")
        await chat.until(lambda: "llama.cpp failed." not in chat.text)
        await answered(chat, "", FinishReason.CANCELLED)
        await chat.until(lambda: said(chat) == before)
    await is_shown_again(file, before)


async def test_an_answer_of_thoughts_alone_is_told_of_again(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.send("one")
        chat.engine.says("hm", thinking=True)
        await answered(chat, "")
        await chat.shows("the model thought, and gave no answer")
        before = said(chat)
    await is_shown_again(file, before)


async def test_an_answer_that_was_stopped_before_its_first_token_has_no_speed(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.send("one")
        chat.engine.reads(100, 10_000)
        chat.engine.finishes(FinishReason.CANCELLED, stats=GenerationStats())
        await chat.ready()
        await chat.until(lambda: chat.status.startswith("ready"))
        assert "tok/s" not in chat.status


@pytest.mark.parametrize("key", ["ctrl+n", "ctrl+up"])
async def test_why_another_answer_came_to_nothing_is_not_said_elsewhere(file: Path, key: str) -> None:
    # With the panel, which leaves the hint alone when a message is chosen.
    async with kept_chat(file, size=(140, 40)) as chat:
        await chat.send("one")
        await answered(chat, "first")
        await next_request(chat, "ctrl+r")
        chat.engine.says("half of it")
        await refused(chat, BROKEN)
        await chat.shows("llama.cpp failed. Load a smaller pair.")
        await chat.pilot.press(key, "right")
        await chat.until(lambda: "llama.cpp failed. Load a smaller pair." not in chat.text)
