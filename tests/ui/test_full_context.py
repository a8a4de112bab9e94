"""A context that is full, a prompt that no longer fits, an answer that repeated itself: told, and told again later."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.core.errors import AppError, ContextOverflowError
from app.engine.types import FinishReason
from tests.ui.chat_driver import said
from tests.ui.kept_driver import BROKEN, FULL, is_shown_again, kept_chat

TOO_LONG = ContextOverflowError(
    "The prompt has 300 tokens and the context holds 256.", "Shorten it, or --ctx.", whose="prompt", n_tokens=300
)


@pytest.mark.parametrize(
    ("reason", "repeats", "words"),
    [
        (FinishReason.CONTEXT, 0, "cut: the context is full; ctrl+n begins a new conversation, f4 sets a longer"),
        (FinishReason.REPETITION, 4, "stopped: the answer repeated itself 4 times; ctrl+g continues"),
        (FinishReason.LENGTH, 0, "cut at the token limit; ctrl+g continues"),
        (FinishReason.CANCELLED, 0, "stopped; ctrl+g continues"),
    ],
)
async def test_how_an_answer_ended_is_shown_again(file: Path, reason: FinishReason, repeats: int, words: str) -> None:
    async with kept_chat(file) as chat:
        await chat.send("Tell me a story.")
        chat.engine.says("Once upon a time")
        chat.engine.finishes(reason, repeats=repeats)
        await chat.ready()
        await chat.shows(words)
        before = said(chat)
    await is_shown_again(file, before)


@pytest.mark.parametrize(
    ("error", "way_out"),
    [
        (FULL, "ctrl+n begins a new conversation, ctrl+up and e change an earlier prompt, f4 sets"),
        (TOO_LONG, "Shorten it, or set a longer context: f4, ctx 2048."),
        (BROKEN, "Load a smaller pair."),
    ],
)
async def test_why_a_prompt_has_no_answer_is_shown_again(file: Path, error: AppError, way_out: str) -> None:
    async with kept_chat(file) as chat:
        await chat.exchange("one", "first")
        await chat.send("and then?")
        chat.engine.fails(error)
        await chat.shows(error.message)
        await chat.shows(way_out)
        assert "--ctx" not in chat.text
        assert chat.prompt == "and then?"
        before = said(chat)
    await is_shown_again(file, before)


async def test_a_prompt_that_comes_to_nothing_once_more_has_the_newer_reason_and_an_answer_takes_its_place(
    file: Path,
) -> None:
    async with kept_chat(file) as chat:
        await chat.send("and then?")
        chat.engine.fails(FULL)
        await chat.shows(FULL.message)
        # Another conversation and back tells it as another start does.
        await chat.pilot.press("ctrl+n")
        await chat.until(lambda: FULL.message not in chat.text)
        await chat.screen.open_conversation(1)
        await chat.shows(FULL.message)
        await chat.pilot.press("ctrl+r")
        await chat.until(lambda: len(chat.engine.requests) == 2)
        chat.engine.finishes()
        await chat.ready()
        await chat.shows("the model said nothing")
    async with kept_chat(file, again=True) as chat:
        await chat.shows("the model said nothing")
        assert FULL.message not in chat.text
        await chat.pilot.press("ctrl+r")
        await chat.until(lambda: chat.engine.requests)
        chat.engine.says("nothing more")
        chat.engine.finishes()
        await chat.ready()
        await chat.until(lambda: said(chat) == ["You", "and then?", "Answer", "nothing more"])
        before = said(chat)
    await is_shown_again(file, before)


async def test_why_an_answer_failed_on_its_way_is_shown_again_and_it_can_go_on(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.send("Tell me a story.")
        chat.engine.says("Once upon a time")
        chat.engine.fails(BROKEN)
        await chat.shows("Load a smaller pair.")
        await chat.shows("ctrl+g continues")
        before = said(chat)
    async with kept_chat(file, again=True) as chat:
        await chat.until(lambda: said(chat) == before)
        await chat.pilot.press("ctrl+g")
        await chat.until(lambda: chat.engine.requests)
        await chat.until(lambda: "llama.cpp failed." not in chat.text)
