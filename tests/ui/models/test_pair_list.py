"""The list of pairs, and downloads beside a conversation."""

from dataclasses import replace

import pytest

from app.conversations.message import Message, Role
from app.core.errors import AppError
from app.engine.types import FinishReason
from app.models.setup_task import SetupProgress, Stage
from app.session.state import Phase
from app.ui.models.downloads import DownloadLines, line_text
from app.ui.text import MARK
from tests.ui.models.driver import open_setup
from tests.ui.models.fake_pairs import BEGUN, CODER, DEMO, OFFLINE, SMALL, FakePairs


async def test_the_open_pair_is_chosen_at_first() -> None:
    default, is_open = (
        replace(DEMO, set_up=True, is_default=True),
        replace(SMALL, here=True, set_up=True, is_open=True),
    )
    async with open_setup(FakePairs(default, is_open, CODER, machine=None), first_run=False) as window:
        assert window.chosen == "llama-8b"
        window.pairs.now = replace(window.pairs.now, machine="An abacus")
        await window.shows("This machine: An abacus")
        assert window.chosen == "llama-8b"
        await window.press("down")
        assert window.chosen == "coder-32b"


async def test_the_first_pair_is_chosen_once_the_machine_is_known_and_stays_so() -> None:
    async with open_setup(FakePairs(CODER, SMALL, machine=None)) as window:
        await window.until(lambda: window.setup.pairs.row is None)
        assert "Checking what this machine can run" in window.text
        assert "coder-32b" not in window.text
        window.pairs.now = replace(window.pairs.now, machine="An abacus")
        await window.until(lambda: window.chosen == "coder-32b")
        window.pairs.now = replace(window.pairs.now, cards=(SMALL, CODER))
        await window.until(lambda: 0 <= window.text.find("llama-8b") < window.text.find("coder-32b"))
        assert window.chosen == "coder-32b"


async def test_the_measured_gain_is_shown_before_a_download() -> None:
    gain = "With Q4_K weights n-gram drafting gained 1.02x to 1.08x"
    async with open_setup(
        FakePairs(replace(CODER, gain=f"{gain}; a draft model lost."), SMALL), size=(80, 24)
    ) as window:
        await window.shows(gain)
        await window.press("enter", shows="Download 20.5 GB?")
        assert gain in window.text
        await window.press("down")
        await window.until(lambda: gain not in window.text)


async def test_esc_clears_the_filter_then_leaves() -> None:
    async with open_setup(first_run=False) as window:
        window.type("llama", "escape")
        await window.until(lambda: window.setup.filter_input.value == "" and "coder-32b" in window.text)
        assert not window.in_chat
        assert window.chosen == "llama-8b"
        window.type("", "escape")
        await window.until(lambda: window.in_chat)


async def test_typing_filters() -> None:
    async with open_setup() as window:
        window.type("32b code")
        await window.until(lambda: "llama-8b" not in window.text)
        assert "coder-32b" in window.text
        assert "qwen3-32b" in window.text
        assert "Add another pair" in window.text
        window.type("", "down", "down", "down")
        await window.until(lambda: window.setup.pairs.row is None)
        await window.press("backspace")
        await window.until(lambda: window.chosen == "coder-32b")
        await window.press(*["backspace"] * 7, shows="llama-8b")
        assert window.chosen == "coder-32b"


async def test_the_marked_row_is_in_view_when_the_filter_is_cleared() -> None:
    cards = [replace(CODER, pair=replace(CODER.pair, name=f"pair-{n:02}")) for n in range(40)]
    async with open_setup(FakePairs(*cards), size=(80, 24)) as window:
        await window.press(*["down"] * 30)
        await window.until(lambda: window.chosen == "pair-30")
        window.type("nothing", "escape")
        await window.until(lambda: f"{MARK} pair-00" in window.text)


async def test_a_second_click_takes_a_pair() -> None:
    async with open_setup() as window:
        row = next(i for i, row in enumerate(window.rows) if row[3:].startswith("demo"))
        await window.pilot.click(offset=(10, row))
        await window.until(lambda: window.chosen == "demo")
        row = next(i for i, row in enumerate(window.rows) if row[3:].startswith("demo"))
        await window.pilot.click(offset=(10, row))
        await window.until(lambda: window.pairs.arguments("set_up") == [["demo"]])


async def test_a_long_name_is_shown_whole_from_80_columns() -> None:
    name = "qwen2.5-coder-1.5b-instruct-bf16"
    card = replace(CODER, pair=replace(CODER.pair, name=name))
    async with open_setup(FakePairs(card, SMALL), size=(200, 50)) as window:
        await window.until(lambda: sum(name in row for row in window.rows) == 1)
        await window.chat.pilot.resize_terminal(80, 40)
        await window.until(lambda: sum(name in row for row in window.rows) == 1)
        await window.chat.pilot.resize_terminal(50, 40)
        await window.shows("qwen2.5-coder-1.5b-in…")


async def test_the_chat_continues_while_a_pair_is_downloaded() -> None:
    async with open_setup(first_run=False) as window:
        await window.press("enter", "enter")
        window.pairs.report("coder-32b", BEGUN)
        await window.shows("MB/s")
        await window.press("escape")
        await window.until(lambda: window.in_chat)
        await window.shows("coder-32b  target 62%  draft 100%  94 MB/s  1 min 19 s")
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
        (78, "coder-32b  target 62%  draft 100%  94 MB/s  1 min 19 s"),
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
