"""The chat over an engine process that does not respond, and on a terminal that is not read."""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from app.core.program import python_command
from app.session.state import Phase
from app.ui.app import TandemApp
from app.ui.chat.screen import ChatScreen
from app.worker.events import Event
from app.worker.isolated_engine import IsolatedEngine
from tests.fake_tools import no_tools
from tests.hanging import HANGS_S
from tests.ui.driver import Driver
from tests.ui.fakes import FakeOpener
from tests.ui.models.fake_pairs import FakePairs
from tests.worker.fake_process import MODULE, FakeLoader


@asynccontextmanager
async def hanging_chat(mark: Path) -> AsyncIterator[tuple[ChatScreen, Driver]]:
    """Yield the chat during an answer whose fifth call does not return, and its driver."""

    def factory(emit: Callable[[Event], None]) -> IsolatedEngine:
        engine = IsolatedEngine([emit], python_command("-m", MODULE))
        engine.stop_s = 0.05
        return engine

    app = TandemApp(factory, FakeLoader(waits_at=5, mark=str(mark)), "A pair", FakeOpener(), FakePairs(), no_tools)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = app.screen
        assert isinstance(screen, ChatScreen)
        driver = Driver(pilot)
        await driver.until(lambda: screen.session.phase is Phase.READY)
        await driver.press("h", "i", "enter")
        await driver.until(mark.exists)
        try:
            yield screen, driver
        finally:
            app.engine.close(0.0)


async def test_esc_ends_the_answer_of_a_hanging_process_and_keeps_its_text(tmp_path: Path) -> None:
    async with hanging_chat(tmp_path / "mark") as (screen, driver):
        assert screen.session.phase is Phase.ANSWERING
        await driver.press("escape")
        await driver.until(lambda: screen.session.phase is Phase.READY)

        remarks = [row.content.plain for part in screen.view.messages.answers[0].parts for row in part.rows]
        assert any("stopped" in remark for remark in remarks)
        asked, said = screen.session.conversation.messages_before(None)
        assert asked.content == "hi"
        assert len(said.content) == 4


_ROOT = Path(__file__).parents[2]
_PROGRAM = """
import os, sys
import app.ui.app
from app.ui.terminal.driver import TerminalWriter, install_driver
from tests.ui.driver import Driver
from tests.ui.fakes import fake_app

held = TerminalWriter.write

def write(self, text):
    if self._waiting.full():
        os.write(int(sys.argv[1]), b"held")
    held(self, text)

TerminalWriter.write = write
app.ui.terminal.driver.END_S = 0.1
install_driver()
chat, _ = fake_app()
chat.call_later(lambda: chat.set_interval(0.01, lambda: chat._driver.write(1000 * "a")))
chat.run()
"""
"""A program that draws endlessly, and reports when the terminal accepts no more."""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such terminal")
def test_a_process_that_waits_for_its_terminal_is_ended() -> None:
    import pty

    ours, theirs = pty.openpty()
    heard, tells = os.pipe()
    chat = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, str(tells)],
        cwd=_ROOT,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        pass_fds=[tells],
        start_new_session=True,
    )
    try:
        for descriptor in (theirs, tells):
            os.close(descriptor)
        assert os.read(heard, 4) == b"held"
        chat.send_signal(signal.SIGTERM)
        assert chat.wait(HANGS_S) == 128 + signal.SIGTERM
    finally:
        chat.kill()
        chat.wait()
        for descriptor in (ours, heard):
            os.close(descriptor)
