"""Quitting, and another window in front of the terminal."""

from pathlib import Path

from app.conversations.store import Store
from app.core.errors import AppError
from app.engine.types import FinishReason
from app.ui.conversations.picker import ConversationPicker
from tests.ui.compare.driver import open_comparison
from tests.ui.driver import WIDE, fill, open_chat, title_of


async def test_quitting_stops_the_loading() -> None:
    async with open_chat(loaded=False) as chat:
        await chat.pilot.press("ctrl+q")
        await chat.pilot.pause()
        assert not chat.app.is_running
        assert chat.engine.cancelled == 1


async def test_quit_during_an_answer_with_an_engine_that_does_not_end() -> None:
    async with open_chat() as chat:
        chat.engine.closes = False
        await chat.send("go")
        chat.engine.says("words")
        await chat.pilot.press("ctrl+q")
        await chat.pilot.pause()
        assert not chat.app.is_running
        assert chat.app.return_code == 0
        assert chat.engine.cancelled == 1
    # The worker's thread may still send events.
    chat.engine.goes_on("late")


async def test_events_after_quitting_are_dropped() -> None:
    async with open_chat(loaded=False) as chat:
        await chat.pilot.press("ctrl+q")
        chat.engine.fails_to_load(AppError("Loading was stopped."))
        chat.screen.call_later(chat.screen.event_queue.dispatch)
        await chat.pilot.pause()
        assert chat.app.return_code == 0


async def test_ctrl_c_stops_an_answer_first_and_quits_unless_another_key_follows() -> None:
    async with open_chat() as chat:
        await chat.send("go")
        await chat.writes("half")
        await chat.press("ctrl+c", shows="The answer stops; ctrl+c again quits")
        assert chat.engine.cancelled == 1
        await chat.press("x")
        assert "again quits" not in chat.text
        await chat.press("ctrl+c", shows="ctrl+c again quits")
        assert chat.app.is_running
        await chat.press("ctrl+c")
        assert not chat.app.is_running


async def test_ctrl_c_quits_only_after_it_was_announced() -> None:
    async with open_chat() as chat:
        await chat.send("go")
        await chat.press("ctrl+c", shows="The answer stops; ctrl+c again quits")
        await chat.answer("half", FinishReason.CANCELLED)
        assert "ctrl+c again quits" in chat.text
        chat.screen.view.hint.say("Something else.")
        await chat.press("ctrl+c", shows="ctrl+c again quits")
        assert chat.app.is_running


async def test_escape_without_a_running_answer_shows_no_message() -> None:
    async with open_chat() as chat:
        await chat.press("escape")
        assert "No answer is being written" not in chat.text
        await chat.enter("/stop", "No answer is being written.")


async def test_ctrl_c_stops_a_comparison_first() -> None:
    async with open_comparison() as compare:
        chat = compare.chat
        await chat.press("ctrl+c", shows="The comparison stops; ctrl+c again quits")
        assert chat.engine.cancelled == 1
        assert chat.app.is_running
        compare.finishes([], stopped=True)
        await chat.shows("stopped before the first run ended")


async def test_a_chosen_message_stays_chosen_and_takes_the_keys() -> None:
    async with open_chat() as chat:
        await chat.exchange("Hello", "Hi")
        await chat.press("ctrl+up", "up")
        await chat.look_away()
        assert chat.chosen == "Hello"
        await chat.come_back()
        assert chat.chosen == "Hello"
        await chat.press("down")
        assert chat.chosen == "Hi"
        await chat.press("escape", until=lambda: not chat.chosen)
        await chat.type("And now?")


async def test_the_prompt_gets_the_focus_when_its_widget_was_removed() -> None:
    async with open_chat() as chat:
        await chat.exchange("Hello", "Hi")
        await chat.press("ctrl+up", "up")
        await chat.look_away()
        chat.screen.view.messages.show([])
        await chat.come_back()
        await chat.until(lambda: chat.screen.view.prompt.has_focus)


async def test_editing_a_title_continues_when_the_focus_returns(file: Path) -> None:
    fill(file, "rivers")
    async with open_chat(size=WIDE, store=lambda: Store(file)) as chat:
        picker = (await chat.list_conversations()).query_one(ConversationPicker)
        await chat.press("ctrl+r", *" of It")
        await chat.look_away()
        await chat.come_back()
        await chat.press(*"aly", "enter")
        await chat.until(lambda: title_of(picker) == "rivers of Italy")
        await chat.until(lambda: picker.search_input.has_focus)
