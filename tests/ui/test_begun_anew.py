"""What came to nothing and is asked once more in another conversation: which of the two goes on."""

from __future__ import annotations

from pathlib import Path

from app.engine.types import FinishReason
from tests.ui.chat_driver import said
from tests.ui.kept_driver import answered, is_shown_again, kept_chat


async def test_what_came_to_nothing_and_is_asked_anew_elsewhere_is_one_conversation(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.send("one")
        await answered(chat, "", FinishReason.CANCELLED)
        await chat.until(lambda: chat.prompt == "one")
        for settings in (False, True):
            await chat.pilot.press("ctrl+n")
            await chat.until(lambda: not said(chat) or "You" not in said(chat))
            if settings:
                chat.screen.keeper.keep_settings({"sampling.temperature": 0.5})
            await chat.send("one")
            assert [summary.title for summary in chat.screen.keeper.summaries()] == ["one"]
            await answered(chat, "", FinishReason.CANCELLED)
        await chat.pilot.press("ctrl+n")
        await chat.send("one")
        await answered(chat, "first")
        before = said(chat)
        # What was answered is not gone on with.
        await chat.pilot.press("ctrl+n")
        await chat.send("one")
        assert [summary.title for summary in chat.screen.keeper.summaries()] == ["one", "one"]
    await is_shown_again(file, before)


async def test_a_long_text_begun_over_it_is_not_taken_for_what_is_sent(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.send("one")
        await answered(chat, "", FinishReason.CANCELLED)
        await chat.until(lambda: chat.prompt == "one")
        await chat.type(", and much more")
        await chat.pilot.press("ctrl+n")
        await chat.until(lambda: chat.prompt == "")
        await chat.send("one")
        assert chat.screen.keeper.conversation == 2
        await answered(chat, "first")
        await chat.screen.open_conversation(1)
        await chat.until(lambda: chat.prompt == "one, and much more")


async def test_what_was_deleted_is_not_taken_up(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.send("one")
        await answered(chat, "", FinishReason.CANCELLED)
        await chat.pilot.press("ctrl+n")
        chat.screen.keeper.delete(1)
        await chat.send("one")
        assert chat.screen.keeper.conversation == 2
