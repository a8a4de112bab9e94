"""What the engine has to say besides answers stands in the conversation, and is in none."""

from __future__ import annotations

from pathlib import Path

from app.worker.events import Notice
from tests.ui.chat_driver import open_chat, said
from tests.ui.kept_driver import answered, is_shown_again, kept_chat


async def test_a_notice_is_shown() -> None:
    async with open_chat() as chat:
        await chat.send("go")
        chat.engine.emit(Notice("Drafting stopped: [why]"))
        await chat.shows("Drafting stopped: [why]")


async def test_a_note_stands_between_no_prompt_and_its_answer(file: Path) -> None:
    async with kept_chat(file, loaded=False) as chat:
        await chat.type("one")
        await chat.pilot.press("enter")
        await chat.shows("waits for the models")
        chat.engine.emit(Notice("The context was rounded."))
        chat.engine.loaded()
        await chat.until(lambda: chat.engine.requests)
        await chat.shows("The context was rounded.")
        assert said(chat)[:3] == ["The context was rounded.", "You", "one"]
        chat.engine.says("first")
        await chat.shows("first")
        chat.engine.emit(Notice("Drafting stopped."))
        await chat.shows("Drafting stopped.")
        await answered(chat, " answer")
        chat.engine.emit(Notice("The pair was loaded."))
        await chat.shows("The pair was loaded.")
        await chat.send("two")
        await answered(chat, "second")
        exchange = ["You", "one", "Answer", "first answer"]
        notes = ["Drafting stopped.", "The pair was loaded."]
        last = ["You", "two", "Answer", "second"]
        assert said(chat) == ["The context was rounded.", *exchange, *notes, *last]
    await is_shown_again(file, [*exchange, *last])
