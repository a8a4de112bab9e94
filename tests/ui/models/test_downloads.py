"""Set up pairs during a conversation, and switch to another pair."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.conversations.message import Message, Role
from app.core.errors import AppError
from app.engine.types import FinishReason
from app.models.setup_task import SetupProgress, Stage
from app.session.state import Phase
from app.ui.models.downloads import DownloadLines, line_text
from tests.ui.models.driver import open_setup
from tests.ui.models.fake_pairs import BEGUN, CODER, OFFLINE, FakePairs


async def test_the_chat_continues_while_a_pair_is_downloaded() -> None:
    async with open_setup(first_run=False) as window:
        await window.press("enter", "enter")
        window.pairs.report("coder-32b", BEGUN)
        await window.shows("MB/s")
        await window.press("escape")
        await window.until(lambda: window.in_chat)
        await window.shows("coder-32b  target 62%  draft 100%  94 MB/s  1 min 22 s")
        await window.chat.send("hello")
        window.engine.says("Good morning.")
        window.engine.finishes()
        await window.shows("Good morning.")
        window.pairs.report("coder-32b", replace(BEGUN, stage=Stage.READY))
        await window.shows("coder-32b is ready; f6 opens it")
        assert window.engine.loads == 1
        await window.press("f6")
        await window.until(lambda: not window.in_chat)
        await window.press("escape")
        await window.until(lambda: window.in_chat)
        assert "f6 opens it" not in window.text


async def test_two_downloads_are_both_shown_to_their_end() -> None:
    async with open_setup(first_run=False) as window:
        await window.press("escape")
        await window.until(lambda: window.in_chat)
        for name in ("coder-32b", "qwen3-32b"):
            window.pairs.report(name, BEGUN)
        window.chat.screen.query_one(DownloadLines).watch_downloads()
        await window.shows("coder-32b  target 62%")
        await window.shows("qwen3-32b  target 62%")
        window.pairs.report("qwen3-32b", replace(BEGUN, stage=Stage.READY))
        await window.shows("qwen3-32b is ready; f6 opens it")
        window.pairs.report("coder-32b", SetupProgress(Stage.FAILED, error=OFFLINE))
        await window.shows("coder-32b: huggingface.co cannot be found. f6 shows details")
        assert "qwen3-32b is ready; f6 opens it" in window.text

        window.chat.screen.query_one(DownloadLines).watch_downloads()
        await window.until(lambda: "f6 opens it" not in window.text)


async def test_another_pair_stops_the_answer_and_continues_the_conversation() -> None:
    async with open_setup(FakePairs(replace(CODER, set_up=True)), first_run=False) as window:
        await window.press("escape")
        await window.until(lambda: window.in_chat)
        await window.chat.send("story")
        window.engine.says("Once upon")
        await window.shows("Once upon")
        await window.press("f6")
        await window.until(lambda: not window.in_chat)
        await window.press("enter", shows="ctrl+x stops it first")
        await window.press("ctrl+x")
        await window.until(lambda: window.engine.cancelled)
        assert window.engine.loads == 1, "the answer must end first"
        window.engine.finishes(FinishReason.CANCELLED)
        await window.until(lambda: window.engine.loads == 2)
        assert window.chat.screen.session.phase is Phase.LOADING
        await window.shows("Title of coder-32b")
        assert "Once upon" in window.text
        await window.chat.load()
        await window.chat.send("go on")
        said = [Message(Role.USER, "story"), Message(Role.ASSISTANT, "Once upon"), Message(Role.USER, "go on")]
        assert list(window.engine.requests[1].messages) == said


async def test_the_pair_chosen_last_is_loaded() -> None:
    async with open_setup(FakePairs(replace(CODER, set_up=True)), first_run=False) as window:
        for loads in (2, 3):
            await window.press("enter")
            await window.until(lambda n=loads: window.engine.loads == n)  # type: ignore[misc]
            if loads == 2:
                await window.press("f6")
                await window.until(lambda: not window.in_chat)
        assert window.engine.cancelled == 1
        window.engine.fails_to_load(AppError("Loading was stopped."))
        await window.pilot.pause()
        assert window.chat.screen.session.phase is Phase.LOADING
        assert "Loading was stopped." not in window.text
        await window.chat.load()


async def test_quitting_stops_the_downloads() -> None:
    async with open_setup() as window:
        await window.press("enter")
        await window.press("ctrl+c", shows="ctrl+c again quits")
        await window.press("ctrl+q")
        assert not window.app.is_running
        assert ("close",) in window.pairs.calls


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (78, "coder-32b  target 62%  draft 100%  94 MB/s  1 min 22 s"),
        (50, "coder-32b  target 62%  draft 100%  94 MB/s"),
        (30, "coder-32b  target 62%"),
        (6, "coder…"),
    ],
)
def test_a_download_line_shows_what_fits(width: int, line: str) -> None:
    assert line_text("coder-32b", BEGUN, width).plain == line


@pytest.mark.parametrize(
    ("error", "line"),
    [
        ("The connection was lost, and lost again.", "coder-32b: The… f6 shows details"),
        ("[b]bad\x1b[2J", "coder-32b: [b]bad[2J f6 shows details"),
    ],
)
def test_a_failed_download_is_one_printable_line_with_the_key(error: str, line: str) -> None:
    assert line_text("coder-32b", SetupProgress(Stage.FAILED, error=AppError(error)), 40).plain == line
