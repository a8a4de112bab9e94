"""The list of pairs, and downloads beside a conversation."""

from dataclasses import replace

import pytest

from app.core.errors import AppError
from app.engine.types import FinishReason
from app.models.setup_task import SetupProgress, Stage
from app.session.state import Phase
from app.ui.models.downloads import DownloadLines, line_text
from app.ui.text import MARK
from tests.ui.models.driver import open_setup
from tests.ui.models.fake_pairs import BEGUN, CODER, DEMO, OFFLINE, SMALL, FakePairs, renamed


async def test_the_open_pair_is_chosen_at_first() -> None:
    default, is_open = (
        replace(DEMO, set_up=True, is_default=True),
        replace(SMALL, here=True, set_up=True, is_open=True),
    )
    async with open_setup(FakePairs(default, is_open, CODER, machine=None), first_run=False) as chat:
        assert chat.pair == "llama-8b"
        chat.pairs.now = replace(chat.pairs.now, machine="An abacus")
        await chat.shows("This machine: An abacus")
        assert chat.pair == "llama-8b"
        await chat.press("down")
        assert chat.pair == "coder-32b"


async def test_the_first_pair_is_chosen_once_the_machine_is_known_and_stays_so() -> None:
    async with open_setup(FakePairs(CODER, SMALL, machine=None)) as chat:
        await chat.until(lambda: chat.setup.pairs.row is None)
        assert "Checking what this machine can run" in chat.text
        assert "coder-32b" not in chat.text
        chat.pairs.now = replace(chat.pairs.now, machine="An abacus")
        await chat.until(lambda: chat.pair == "coder-32b")
        chat.pairs.now = replace(chat.pairs.now, cards=(SMALL, CODER))
        await chat.until(lambda: 0 <= chat.text.find("llama-8b") < chat.text.find("coder-32b"))
        assert chat.pair == "coder-32b"


async def test_the_measured_gain_is_shown_before_a_download() -> None:
    gain = "With Q4_K weights n-gram drafting gained 1.02x to 1.08x"
    coder = replace(CODER, proposal=replace(CODER.proposal, drafting=f"{gain}; a draft model lost."))
    async with open_setup(FakePairs(coder, SMALL), size=(80, 24)) as chat:
        await chat.shows(gain)
        await chat.press("enter", shows="Download 20.5 GB?")
        assert gain in chat.text
        await chat.press("down", until=lambda: gain not in chat.text)


async def test_esc_clears_the_filter_then_leaves() -> None:
    async with open_setup(first_run=False) as chat:
        chat.hit("llama", "escape")
        await chat.until(lambda: chat.setup.filter_input.value == "" and "coder-32b" in chat.text)
        assert not chat.is_in_front
        assert chat.pair == "llama-8b"
        chat.hit("", "escape")
        await chat.in_front()


async def test_typing_filters() -> None:
    async with open_setup() as chat:
        chat.hit("32b code")
        await chat.until(lambda: "llama-8b" not in chat.text)
        assert "coder-32b" in chat.text
        assert "qwen3-32b" in chat.text
        assert "Add another pair" in chat.text
        chat.hit("", "down", "down", "down")
        await chat.until(lambda: chat.setup.pairs.row is None)
        await chat.press("backspace", until=lambda: chat.pair == "coder-32b")
        await chat.press(*["backspace"] * 7, shows="llama-8b")
        assert chat.pair == "coder-32b"


async def test_the_marked_row_is_in_view_when_the_filter_is_cleared() -> None:
    cards = [renamed(CODER, f"pair-{n:02}") for n in range(40)]
    async with open_setup(FakePairs(*cards), size=(80, 24)) as chat:
        await chat.press(*["down"] * 30)
        await chat.until(lambda: chat.pair == "pair-30")
        chat.hit("nothing", "escape")
        await chat.until(lambda: f"{MARK} pair-00" in chat.text)


async def test_a_second_click_takes_a_pair() -> None:
    async with open_setup() as chat:
        row = next(i for i, row in enumerate(chat.rows) if row[3:].startswith("demo"))
        await chat.pilot.click(offset=(10, row))
        await chat.until(lambda: chat.pair == "demo")
        row = next(i for i, row in enumerate(chat.rows) if row[3:].startswith("demo"))
        await chat.pilot.click(offset=(10, row))
        await chat.until(lambda: chat.pairs.arguments("set_up") == [["demo"]])


async def test_a_long_name_is_shown_whole_from_80_columns() -> None:
    name = "qwen2.5-coder-1.5b-instruct-bf16"
    card = renamed(CODER, name)
    async with open_setup(FakePairs(card, SMALL), size=(200, 50)) as chat:
        await chat.until(lambda: sum(name in row for row in chat.rows) == 1)
        await chat.pilot.resize_terminal(80, 40)
        await chat.until(lambda: sum(name in row for row in chat.rows) == 1)
        await chat.pilot.resize_terminal(50, 40)
        await chat.shows("qwen2.5-coder-1.5b-in…")


async def test_the_chat_continues_while_a_pair_is_downloaded() -> None:
    async with open_setup(first_run=False) as chat:
        await chat.press("enter", "enter")
        chat.pairs.report("coder-32b", BEGUN)
        await chat.shows("MB/s")
        await chat.in_front("escape")
        await chat.shows("coder-32b  target 62%  draft 100%  94 MB/s  1 min 19 s")
        await chat.send("hello")
        chat.engine.goes_on("Good morning.")
        await chat.shows("Good morning.")
        chat.pairs.report("coder-32b", replace(BEGUN, stage=Stage.READY))
        await chat.shows("coder-32b is ready; f6 opens it")
        assert chat.engine.loads == 1
        await chat.press("f6", until=lambda: not chat.is_in_front)
        await chat.in_front("escape")
        assert "f6 opens it" not in chat.text


async def test_two_downloads_are_both_shown_to_their_end() -> None:
    async with open_setup(first_run=False) as chat:
        await chat.in_front("escape")
        for name in ("coder-32b", "qwen3-32b"):
            chat.pairs.report(name, BEGUN)
        chat.screen.query_one(DownloadLines).watch_downloads()
        await chat.shows("coder-32b  target 62%", "qwen3-32b  target 62%")
        chat.pairs.report("qwen3-32b", replace(BEGUN, stage=Stage.READY))
        await chat.shows("qwen3-32b is ready; f6 opens it")
        chat.pairs.report("coder-32b", SetupProgress(Stage.FAILED, error=OFFLINE))
        await chat.shows("coder-32b: huggingface.co cannot be found. f6 shows details")
        assert "qwen3-32b is ready; f6 opens it" in chat.text

        chat.screen.query_one(DownloadLines).watch_downloads()
        await chat.until(lambda: "f6 opens it" not in chat.text)


async def test_another_pair_stops_the_answer_and_continues_the_conversation() -> None:
    async with open_setup(FakePairs(replace(CODER, set_up=True)), first_run=False) as chat:
        await chat.in_front("escape")
        await chat.send("story")
        await chat.writes("Once upon")
        await chat.press("f6", until=lambda: not chat.is_in_front)
        await chat.press("enter", shows="ctrl+x stops it first")
        await chat.press("ctrl+x", until=lambda: chat.engine.cancelled)
        assert chat.engine.loads == 1, "the answer must end first"
        chat.engine.finishes(FinishReason.CANCELLED)
        await chat.until(lambda: chat.engine.loads == 2)
        assert chat.screen.session.phase is Phase.LOADING
        await chat.shows("Title of coder-32b")
        assert "Once upon" in chat.text
        await chat.load()
        await chat.send("go on")
        assert chat.asked == ["story", "Once upon", "go on"]


async def test_quitting_stops_the_downloads() -> None:
    async with open_setup() as chat:
        await chat.press("enter", "ctrl+c", shows="ctrl+c again quits")
        await chat.press("ctrl+q")
        assert not chat.app.is_running
        assert ("close",) in chat.pairs.calls


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
