"""The compare screen when it is stopped, fails, is left or saved; and that the chat below is as it was."""

from __future__ import annotations

from app.conversations.message import Message, Role
from app.conversations.store import Store
from app.core.errors import ContextOverflowError, DecodeError
from app.ui.screens.chat import ChatScreen
from app.worker.events import Failed
from tests.ui.chat_driver import open_chat
from tests.ui.compare.driver import (
    AUTOMATIC,
    PLAIN,
    SAME,
    SETTINGS,
    Comparison,
    made,
    open_comparison,
)


async def test_esc_stops_and_esc_again_leaves() -> None:
    async with open_comparison() as compare:
        compare.runs(made(PLAIN, 4))
        await compare.chat.shows("50 tok/s")
        await compare.chat.pilot.press("escape")
        await compare.chat.shows("stopping")
        assert compare.engine.cancelled == 1
        compare.finishes([], stopped=True)
        await compare.chat.shows("stopped")
        await compare.chat.pilot.press("escape")
        await compare.chat.until(lambda: isinstance(compare.chat.pilot.app.screen, ChatScreen))


async def test_a_failure_keeps_whole_rounds_and_shows_why() -> None:
    async with open_comparison() as compare:
        compare.races([made(PLAIN, 4), made(AUTOMATIC, 2)], differences=SAME)
        await compare.chat.shows("2.0× faster")
        await compare.chat.pilot.press("r")
        await compare.chat.until(lambda: len(compare.engine.jobs) == 2)
        compare.finishes([[made(AUTOMATIC, 2), made(PLAIN, 4)]], broken=DecodeError("The card is gone."))
        await compare.chat.shows("The card is gone.")
        await compare.chat.shows("2.0× faster  (2 runs")


async def test_a_comparison_leaves_the_chat_unchanged() -> None:
    store = Store()
    async with open_chat(SETTINGS, store=lambda: store) as chat:
        await chat.exchange("One?", "First.")
        await chat.type("half a prom")
        before, said = chat.text, chat.screen.session.conversation.messages_before(None)
        compare = Comparison(chat)
        await compare.open()
        compare.races([made(PLAIN, 4), made(AUTOMATIC, 2)], differences=SAME)
        await chat.shows("2.0× faster")
        await chat.pilot.press("m", "escape", "escape")
        await chat.until(lambda: isinstance(chat.pilot.app.screen, ChatScreen))
        # What was on its way when the screen was left belongs to no one.
        compare.runs(made(PLAIN, 4))
        compare.finishes([], stopped=True)
        await chat.type("pt")
        assert chat.prompt == "half a prompt"
        assert chat.screen.session.conversation.messages_before(None) == said
        assert chat.text.replace("half a prompt", "half a prom") == before
        (kept,) = store.summaries()
        assert [node.text for node in store.load(kept.id).tree.path] == ["One?", "First."]

        chat.screen.prompt.clear()
        await chat.send("Two?")
        assert chat.engine.requests[-1].messages == (*said, Message(Role.USER, "Two?"))
        chat.engine.says("Second.")
        await chat.shows("Second.")


async def test_a_comparison_can_continue_after_a_failure() -> None:
    async with open_comparison() as compare:
        compare.begins(PLAIN)
        compare.engine.emit(Failed(compare.engine.job_number, DecodeError("The target failed.", "Try a smaller one.")))
        await compare.chat.shows("The target failed.")
        assert "Try a smaller one." in compare.chat.text
        await compare.chat.pilot.press("m")
        await compare.chat.until(lambda: len(compare.engine.jobs) == 2)
        assert "The target failed." not in compare.chat.text
        compare.races([made(PLAIN, 4), made(AUTOMATIC, 2)], differences=SAME)
        await compare.chat.shows("2.0× faster")


async def test_a_prompt_that_does_not_fit_is_reported_with_the_keys_of_the_chat() -> None:
    async with open_comparison() as compare:
        compare.engine.emit(Failed(compare.engine.job_number, ContextOverflowError("It is full.", "Ask with --ctx.")))
        await compare.chat.shows("Start a new conversation (ctrl+n) or edit an earlier prompt (ctrl+up,")
        assert "--ctx" not in compare.chat.text


async def test_it_is_copied_as_markdown() -> None:
    async with open_comparison(size=(160, 40)) as compare:
        await compare.chat.pilot.press("c")
        assert compare.chat.pilot.app.clipboard == "", "there is nothing to copy yet"
        compare.races([made(PLAIN, 4), made(AUTOMATIC, 2)], differences=SAME)
        await compare.chat.shows("2.0× faster")
        await compare.chat.pilot.press("c")
        assert "| automatic | 100.0 tok/s | 2.0×? |" in compare.chat.pilot.app.clipboard


async def test_a_reload_of_the_pair_is_shown() -> None:
    async with open_comparison() as compare:
        compare.engine.load_progress("target", 0.5)
        await compare.chat.shows("loading the models again: 50%")
        compare.races([made(PLAIN, 4), made(AUTOMATIC, 2)], differences=SAME)
        await compare.chat.shows("2.0× faster")
