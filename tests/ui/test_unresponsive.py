"""Check the chat over an engine process that does not respond."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from app.core.program import python_command
from app.session.chat_settings import ChatSettings
from app.session.snapshot import Phase
from app.ui.app import TandemApp
from app.ui.screens.chat import ChatScreen
from app.ui.transcript.message import AnswerMessage
from app.worker.events import Event
from app.worker.isolated_engine import IsolatedEngine
from tests.worker.fake_process import MODULE, FakeLoader

_LOOKS = 3000


async def until(condition: Callable[[], object]) -> None:
    """Wait until something is so; another process takes its time."""
    for _ in range(_LOOKS):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never came true")


@asynccontextmanager
async def hanging_chat(mark: Path) -> AsyncIterator[tuple[ChatScreen, Callable[..., Awaitable[None]]]]:
    """The chat in the middle of an answer whose fifth call does not return; and what presses keys."""

    def factory(emit: Callable[[Event], None]) -> IsolatedEngine:
        engine = IsolatedEngine(emit, python_command("-m", MODULE))
        engine.stop_s = 0.05
        return engine

    app = TandemApp(factory, FakeLoader(waits_at=5, mark=str(mark)), ChatSettings("A pair"))
    async with app.run_test(size=(80, 24)) as pilot:
        screen = app.screen
        assert isinstance(screen, ChatScreen)
        await until(lambda: screen.session.phase is Phase.READY)
        await pilot.press("h", "i", "enter")
        await until(mark.exists)
        try:
            yield screen, pilot.press
        finally:
            app.engine.close(0.0)


async def test_esc_ends_the_answer_of_a_hanging_process_and_keeps_its_text(tmp_path: Path) -> None:
    async with hanging_chat(tmp_path / "mark") as (screen, press):
        assert screen.session.phase is Phase.ANSWERING
        await press("escape")
        await until(lambda: screen.session.phase is Phase.READY)

        (answer,) = screen.query(AnswerMessage)
        assert "stopped" in str(answer.remark.render())
        asked, said = screen.session.conversation.messages_before(None)
        assert asked.content == "hi"
        assert len(said.content) == 4


async def test_the_next_prompt_is_answered_by_a_new_process(tmp_path: Path) -> None:
    async with hanging_chat(tmp_path / "mark") as (screen, press):
        await press("escape")
        await until(lambda: screen.session.phase is Phase.READY)
        await press("h", "i", "enter")

        await until(lambda: len(screen.query(AnswerMessage).last().text) > 8)
