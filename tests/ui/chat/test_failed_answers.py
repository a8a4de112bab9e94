"""Answers that fail or are empty; another start shows the same."""

from pathlib import Path

import pytest

from app.core.errors import AppError, ContextOverflowError
from app.engine.types import FinishReason
from app.ui.conversations.picker import ConversationPicker
from tests.ui.driver import (
    BROKEN,
    FULL,
    REFUSAL,
    WAYS_OUT,
    is_shown_again,
    kept_chat,
)


async def test_a_regeneration_without_text_leaves_no_branch(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.exchange("one", "first")
        for reason, told in ((FinishReason.CANCELLED, "stopped."), (FinishReason.STOP, "the model generated no text.")):
            await chat.next_request("ctrl+r")
            await chat.answer("", reason)
            await chat.shows(f"No new text: {told}")
            assert chat.said == ["You", "one", "Answer", "first"]
        before = chat.said
    await is_shown_again(file, before)


TOO_LONG = ContextOverflowError(
    "The prompt has 300 tokens and the context holds 256.", "Shorten it, or --ctx.", whose="prompt", n_tokens=300
)


@pytest.mark.parametrize(
    ("reason", "repeats", "words"),
    [
        (FinishReason.CONTEXT, 0, "cut: the context is full; ctrl+n starts a new conversation, or set a longer"),
        (FinishReason.REPETITION, 4, "stopped: the answer repeated itself 4 times; ctrl+g continues"),
    ],
)
async def test_how_an_answer_ended_is_shown_again(file: Path, reason: FinishReason, repeats: int, words: str) -> None:
    async with kept_chat(file) as chat:
        await chat.send("Tell me a story.")
        chat.engine.says("Once upon a time")
        chat.engine.finishes(reason, repeats=repeats)
        await chat.ready()
        await chat.shows(words)
        before = chat.said
    await is_shown_again(file, before)


@pytest.mark.parametrize(
    ("error", "way_out"),
    [
        (FULL, "Start a new conversation (ctrl+n) or edit an earlier prompt (ctrl+up, then enter), or"),
        (TOO_LONG, "(f4, ctx 2048)."),
        (BROKEN, "Load a smaller pair."),
    ],
)
async def test_why_a_prompt_has_no_answer_is_shown_again(file: Path, error: AppError, way_out: str) -> None:
    async with kept_chat(file) as chat:
        await chat.exchange("one", "first")
        await chat.send("and then?")
        chat.engine.fails(error)
        await chat.shows(error.message, way_out)
        assert "--ctx" not in chat.text
        assert chat.prompt == "and then?"
        before = chat.said
    await is_shown_again(file, before)


async def test_the_error_of_a_failed_answer_is_shown_again_and_it_can_continue(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.send("Tell me a story.")
        chat.engine.says("Once upon a time")
        chat.engine.fails(BROKEN)
        await chat.shows("Load a smaller pair.", "ctrl+g continues")
        before = chat.said
    async with kept_chat(file, again=True) as chat:
        await chat.until(lambda: chat.said == before)
        await chat.next_request("ctrl+g")
        await chat.until(lambda: "llama.cpp failed." not in chat.text)


async def test_another_prompt_replaces_a_refused_prompt_which_stays_a_branch(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.exchange("one", "first")
        await chat.send("And then?")
        await chat.refuse()
        chat.screen.view.prompt.clear()
        await chat.send("And now?")
        await chat.shows("The previous prompt has no answer; this prompt is a branch beside it.")
        await chat.until(lambda: chat.said[4:] == ["You   ◂ 2 / 2 ▸", "And now?", "Answer"])
        await chat.refuse()
        await chat.shows("You   ◂ 2 / 2 ▸")
        assert "And then?" not in chat.text
        await chat.pilot.press("ctrl+up", "left", "escape")
        await chat.until(lambda: chat.said[4:] == ["You   ◂ 1 / 2 ▸", "And then?", *REFUSAL, *WAYS_OUT])


async def test_a_hit_in_another_branch_opens_that_branch(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.send("the first attempt")
        await chat.refuse()
        chat.screen.view.prompt.clear()
        await chat.send("another one")
        await chat.until(lambda: chat.said == ["You   ◂ 2 / 2 ▸", "another one", "Answer"])
        found = ConversationPicker.Chosen(1, 1)
        await chat.screen.on_conversation_picker_chosen(found)
        await chat.shows("The found message is on another branch")
        await chat.answer("second")
        await chat.screen.on_conversation_picker_chosen(found)
        await chat.until(lambda: chat.said[:3] == ["You   ◂ 1 / 2 ▸", "the first attempt", "Answer"])
        await chat.next_request("ctrl+r")
        assert chat.asked == ["the first attempt"]


async def test_a_refusal_leaves_the_context_as_full_as_it_was(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.exchange("one", "first")
        await chat.until(lambda: chat.screen.view.status.used_tokens == "2.1k")
        await chat.send("two")
        await chat.refuse()
        await chat.until(lambda: chat.status.startswith("ready"))
        assert chat.screen.view.status.used_tokens == "2.1k"
