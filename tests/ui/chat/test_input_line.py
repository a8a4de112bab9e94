"""Unsent text: edits, queued prompts, and their storage."""

from collections.abc import Callable
from pathlib import Path

import pytest
from textual import events

from app.conversations.store import Store
from app.core.errors import AppError
from app.engine.types import FinishReason
from tests.ui.driver import (
    Chat,
    keep,
    kept_chat,
    open_chat,
    texts,
)


async def test_nothing_is_changed_while_an_answer_is_written(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.exchange("one", "first")
        await chat.send("two")
        await chat.writes("sec")
        await chat.press("ctrl+up", "up", "up", "up")
        assert chat.chosen == "one"
        for key in ("enter", "ctrl+r"):
            await chat.press(key)
            # In this state esc leaves the message.
            await chat.shows("An answer is being written.")
        assert len(chat.engine.requests) == 2
        assert chat.prompt == ""


async def test_a_change_that_was_not_sent_comes_back_with_the_conversation(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.exchange("one", "first")
        await chat.type("unsent")
        await chat.press("ctrl+up", "up", "enter")
        await chat.type(" more")
        kept = "unsent\n\none more"
        await chat.press("ctrl+n", until=lambda: chat.answers == [])
        assert chat.prompt == ""
        await chat.screen.controller.open_conversation(1)
        assert chat.prompt == kept
    store = Store(file)
    assert store.load(1).unsent_text == kept
    store.close()


async def test_a_disk_error_is_visible_beside_a_long_answer(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.exchange("one", "first")
        await chat.send("two")
        store = chat.screen.session.library.store
        assert store is not None
        store.database.connection.execute("PRAGMA query_only = ON")
        await chat.answer("line\n\n" * 60)
        await chat.until(lambda: "cannot be written. Check the folder" in " ".join(chat.text.split()))
        await chat.enter("three", until=lambda: chat.prompt == "three")
        assert "cannot be written. Check the folder" in " ".join(chat.text.split())


async def test_an_edit_that_names_a_missing_file_stays_an_edit(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with kept_chat(file) as chat:
        await chat.exchange("one", "first")
        await chat.type("not yet sent")
        await chat.press("ctrl+up", "up", "enter")
        await chat.enter(" @nots.md", "There is no file nots.md. To send it as text, put a space")
        await chat.until(lambda: chat.prompt == "one @nots.md")
        assert chat.screen.controller.line.is_borrowed
        assert chat.screen.controller.line.pending_text == "not yet sent\n\none @nots.md"
        await chat.press("left", "left", "left", "left", "left", "left", "left", "space")
        await chat.next_request("enter")
        assert chat.asked == ["one @ nots.md"]
        assert chat.prompt == "not yet sent"


SWITCHES = ["ctrl+up left", "ctrl+up up enter", "escape"]
"""Keys that leave an edited message and lead elsewhere."""


@pytest.mark.parametrize("keys", SWITCHES)
async def test_an_edit_that_was_left_is_a_past_prompt(file: Path, keys: str) -> None:
    async with kept_chat(file) as chat:
        await chat.exchange("one", "first")
        await chat.next_request("ctrl+r")
        await chat.answer("second")
        await chat.type("typed")
        await chat.press("ctrl+up", "enter")
        await chat.type(" and many more words")
        await chat.press(*keys.split())
        if "left" in keys:
            await chat.until(lambda: chat.chosen == "first")
        else:
            # Measurements of another branch are shown in the same place.
            await chat.shows("The changed text is kept: ctrl+s finds it.")
        assert chat.screen.view.prompt.past.newest()[0][0] == "second and many more words"


CODE = "main.py:\n```py\nprint(1)\n```\n\nRun @main.py now"
"""An answer that looks like a prompt with a file."""


async def test_an_answer_that_looks_like_a_prompt_with_a_file_is_edited_with_every_line(file: Path) -> None:
    keep(file, "write it", CODE)
    async with kept_chat(file, again=True) as chat:
        await chat.press("ctrl+up", "enter", until=lambda: chat.prompt == CODE)
        chat.app.post_message(events.Paste("line\n" * 50))
        await chat.until(lambda: chat.prompt.endswith("line\n"))
        await chat.press("enter", until=lambda: texts(file)[-1].startswith(CODE))
        assert texts(file)[-1] == CODE + "line\n" * 50


async def wait(chat: Chat) -> None:
    """Send a prompt before the models are loaded, and type the next one."""
    await chat.enter("early", "waiting for the models")
    await chat.type("the next")


def fail(chat: Chat) -> None:
    chat.engine.fails_to_load(AppError("big.gguf is cut short."))


@pytest.mark.parametrize("end", [lambda chat: chat.screen.action_do("take_back"), fail])
async def test_a_waiting_prompt_is_returned_before_the_next_prompt(end: Callable[[Chat], None]) -> None:
    async with open_chat(loaded=False) as chat:
        await wait(chat)
        end(chat)
        await chat.until(lambda: chat.prompt == "early\n\nthe next")
        assert chat.screen.controller.line.pending_text == "early\n\nthe next"


async def test_only_what_was_asked_is_offered_as_a_past_prompt(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.exchange("one", "first")
        await chat.press("ctrl+up", "enter")
        await chat.enter(" changed", "first changed")
        await chat.press("up")
        assert chat.prompt == "one"
        await chat.press("down", "ctrl+up", "up", "enter")
        await chat.type(" more")
        await chat.next_request("enter")
        await chat.answer("second")
        await chat.press("up")
        assert chat.prompt == "one more"


async def test_a_prompt_that_begins_with_a_slash_comes_back_as_it_was_typed(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.send(" /help me")
        assert chat.asked == ["/help me"]
        chat.engine.finishes(FinishReason.CANCELLED)
        await chat.until(lambda: chat.prompt == " /help me")
        await chat.next_request("ctrl+r")
        assert chat.prompt == ""
        await chat.answer("first")
        await chat.press("ctrl+up", "up", "enter")
        assert chat.prompt == " /help me"
        await chat.next_request("enter")
        assert chat.asked == ["/help me"]
        await chat.answer("second")
    async with kept_chat(file) as chat:
        await chat.until(lambda: chat.screen.session.library.is_open)
        await chat.press("up")
        assert chat.prompt == " /help me"
