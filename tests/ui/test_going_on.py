"""An answer that ended early is gone on with, in place."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.conversations.message import Begun, Message, Role
from app.conversations.store import Store
from app.conversations.tree import State
from app.core.errors import AppError
from app.engine.types import FinishReason
from tests.ui.conversations_driver import texts
from tests.ui.kept_driver import kept_chat
from tests.ui.steering_driver import (
    answer_with,
    asked,
    everything,
    exchange,
    next_request,
    press,
)


@pytest.mark.parametrize("reason", [FinishReason.CANCELLED, FinishReason.LENGTH])
async def test_an_answer_that_ended_early_goes_on_in_place(file: Path, reason: FinishReason) -> None:
    async with kept_chat(file) as chat:
        await chat.send("count")
        await answer_with(chat, "one, two, ", reason)
        await chat.shows("ctrl+g continues")
        await next_request(chat, "ctrl+g")
        request = chat.engine.requests[-1]
        assert request.messages == (Message(Role.USER, "count"),)
        assert request.begun == Begun("one, two, ")
        await chat.until(lambda: "ctrl+g" not in chat.text)
        chat.engine.goes_on("three")
        await chat.ready()
        await chat.shows("one, two, three")
        assert everything(file) == [("count", State.COMPLETE), ("one, two, three", State.COMPLETE)]
        await exchange(chat, "and then?", "four")
        assert asked(chat) == ["count", "one, two, three", "and then?"]
        store = Store.open(file)
        stats = store.stats(2)
        assert [part["reason"] for part in stats["earlier"]] == [reason.value]
        assert stats["reason"] == "stop"
        store.close()


async def test_an_answer_that_a_kill_cut_goes_on(file: Path) -> None:
    store = Store.open(file)
    number = store.create()
    prompt = store.add(number, Role.USER, "count", parent=None)
    journal = store.answer(number, prompt.id)
    journal.add("let me see", reasoning=True)
    journal.add("one, two, ")
    store.close()
    async with kept_chat(file) as chat:
        await chat.screen.open_conversation(number)
        await chat.shows("cut before its end; ctrl+g continues")
        await press(chat, "ctrl+up")
        assert "c continue" in chat.rows[-1]
        await next_request(chat, "c")
        assert chat.engine.requests[-1].begun == Begun("one, two, ", "let me see")
        chat.engine.says("three")
        await chat.until(lambda: "one, two, three" in texts(file))
        assert everything(file)[-1] == ("one, two, three", State.WRITING)
    assert everything(file)[-1] == ("one, two, three", State.CUT)


async def test_a_failed_answer_goes_on_and_then_counts(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.send("count")
        chat.engine.says("one, ")
        chat.engine.fails(AppError("It broke."))
        await chat.shows("It broke.")
        assert chat.prompt == "count"
        assert "ctrl+g continues" in chat.text
        await next_request(chat, "ctrl+up", "c")
        assert chat.prompt == ""
        await chat.until(lambda: "It broke." not in chat.text)
        chat.engine.goes_on("two")
        await chat.ready()
        assert texts(file) == ["count", "one, two"]
        await exchange(chat, "more", "three")
        assert asked(chat) == ["count", "one, two", "more"]


async def test_more_of_an_answer_that_fails_keeps_both_parts(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.send("count")
        await answer_with(chat, "one, ", FinishReason.CANCELLED)
        await next_request(chat, "ctrl+g")
        chat.engine.says("two, ")
        chat.engine.fails(AppError("It broke."))
        await chat.shows("It broke.")
        assert everything(file)[-1] == ("one, two, ", State.STOPPED)
        assert chat.prompt == ""
        await next_request(chat, "ctrl+g")
        assert chat.engine.requests[-1].begun == Begun("one, two, ")
        chat.engine.goes_on("three")
        await chat.ready()
        assert texts(file) == ["count", "one, two, three"]


async def test_more_of_an_answer_that_is_stopped_at_once_changes_nothing(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.send("count")
        await answer_with(chat, "one, ", FinishReason.LENGTH)
        await next_request(chat, "ctrl+g")
        chat.engine.goes_on("", FinishReason.CANCELLED)
        await chat.ready()
        assert everything(file)[-1] == ("one, ", State.CUT)
        await next_request(chat, "ctrl+g")
        chat.engine.goes_on("")
        await chat.ready()
        assert everything(file)[-1] == ("one, ", State.COMPLETE)
        await press(chat, "ctrl+g")
        await chat.shows("The last answer is at its end.")


async def test_where_nothing_was_answered_nothing_is_gone_on_with(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.send("count")
        chat.engine.fails(AppError("It broke."))
        await chat.ready()
        await press(chat, "ctrl+g")
        await chat.shows("There is no answer to go on with.")


async def test_an_answer_with_replies_is_not_gone_on_with(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.send("count")
        await answer_with(chat, "one, ", FinishReason.CANCELLED)
        await exchange(chat, "go on", "two")
        assert "ctrl+g" not in chat.text
        await press(chat, "ctrl+up", "up", "up")
        assert "c continue" not in chat.rows[-1]
        await press(chat, "c")
        assert len(chat.engine.requests) == 2
