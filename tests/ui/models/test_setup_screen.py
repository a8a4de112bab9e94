"""The setup screen over scripted pairs."""

from dataclasses import replace

import pytest

from app.core.errors import AppError, CacheError, FileChangedError, PairError
from app.hardware.recommend import Fit, Proposal
from app.models.progress import FileProgress
from app.models.setup_task import SetupProgress, Stage
from app.session.state import Phase
from app.ui.models.state import PairCard
from app.ui.text import MARK
from tests.ui.models.driver import open_setup
from tests.ui.models.fake_pairs import (
    BEGUN,
    CARDS,
    CHECKED,
    CODER,
    DEMO,
    GB,
    HUGE,
    MACHINE,
    OFFLINE,
    SMALL,
    FakePairs,
    facts,
    renamed,
    with_check,
)

SLOW = Proposal(SMALL.pair, Fit.FITS, reason="about 2 tok/s", slow=True)


async def test_the_first_run_shows_the_machine_and_the_pairs_and_loads_nothing() -> None:
    async with open_setup() as chat:
        assert f"This machine: {MACHINE}" in chat.text
        for card in CARDS:
            row = next(row for row in chat.rows if row[3:].startswith(f"{card.name} "))
            assert card.target[:12] in row
            assert card.draft in row
            assert card.proposal.word in row
        assert "Choose a pair" in chat.rows[0]
        assert "A big model answers; a small draft model makes it faster." in chat.text
        assert [row.strip() for row in chat.rows if row.strip() in ("To download", "Try offline (tiny)")] == [
            "To download",
            "Try offline (tiny)",
        ]
        assert chat.engine.loads == 0
        assert chat.screen.session.phase is Phase.UNLOADED


@pytest.mark.parametrize("size", [(80, 24), (20, 6)])
async def test_the_open_pair_is_scrolled_into_view(size: tuple[int, int]) -> None:
    others = [renamed(SMALL, f"pair-{n}") for n in range(20)]
    pairs = FakePairs(*others, replace(DEMO, set_up=True, is_open=True))
    async with open_setup(pairs, first_run=False, size=size) as chat:
        await chat.stands_still()
        assert f"{MARK} demo" in chat.text


async def test_the_first_download_shows_its_progress_and_opens() -> None:
    async with open_setup() as chat:
        await chat.press("enter", shows="Download 20.5 GB? Enter yes, Esc no")
        assert chat.pairs.arguments("set_up") == []
        await chat.press("enter")
        assert chat.pairs.arguments("set_up") == [["coder-32b", "confirmed"]]
        await chat.shows("checking")
        chat.pairs.report("coder-32b", BEGUN)
        await chat.shows("12.4 / 19.9 GB  94 MB/s  1 min 19 s")
        assert "0.7 /  0.7 GB  ✓" in chat.text
        assert "64%" in chat.text
        await chat.press("enter", shows="ctrl+x stops it")
        assert len(chat.pairs.arguments("set_up")) == 1
        chat.pairs.report("coder-32b", replace(BEGUN, stage=Stage.READY))
        await chat.in_front()
        await chat.shows("Title of coder-32b")
        assert "from now on" not in chat.text
        assert chat.engine.loads == 1


async def test_a_first_pair_says_that_tandem_opens_with_it() -> None:
    async with open_setup(FakePairs(replace(CODER, here=True, is_default=True))) as chat:
        await chat.press("enter")
        chat.pairs.report("coder-32b", SetupProgress(Stage.READY))
        await chat.shows("Tandem opens with this pair from now on; f6 changes that.")


async def test_waiting_is_explained() -> None:
    async with open_setup() as chat:
        await chat.press("enter", "enter")
        waiting = FileProgress("target", GB, 2 * GB, "The hub asks to slow down.", 7)
        setup = SetupProgress(Stage.DOWNLOADING, (waiting,))
        chat.pairs.report("coder-32b", setup)
        await chat.shows("The hub asks to slow down, retry in 7 s")


async def test_ctrl_x_stops_and_enter_continues() -> None:
    async with open_setup() as chat:
        await chat.press("enter", "enter")
        chat.pairs.report("coder-32b", BEGUN)
        await chat.shows("MB/s")
        await chat.press("ctrl+x")
        assert chat.pairs.arguments("cancel_setup") == [["coder-32b"]]
        await chat.shows("Stopped. Press Enter to resume.")
        assert "stopped 64%" in chat.text
        await chat.press("enter")
        assert len(chat.pairs.arguments("set_up")) == 2


async def test_offline_the_failure_is_shown_and_the_demo_works() -> None:
    async with open_setup(size=(80, 24)) as chat:
        await chat.press("enter", "enter")
        chat.pairs.report("coder-32b", SetupProgress(Stage.FAILED, error=OFFLINE))
        await chat.shows("huggingface.co cannot be found.")
        assert "This machine seems to be offline." in chat.text
        await chat.shows("demo needs no download")
        chat.hit("demo", "enter")
        await chat.until(lambda: chat.pairs.arguments("set_up") == [["coder-32b", "confirmed"], ["demo"]])
        chat.pairs.report("demo", SetupProgress(Stage.READY))
        await chat.in_front()
        assert chat.pairs.arguments("load_request") == [["demo"]]
        await chat.load()
        await chat.send("hello")


async def test_a_missing_file_is_named_and_one_key_accepts_the_current_file() -> None:
    gone = FileChangedError(
        "big.gguf of owner/big is not the file that this pair was made with.", "tandem setup --latest"
    )
    async with open_setup(size=(80, 24)) as chat:
        await chat.press("enter", "enter")
        chat.pairs.report("coder-32b", SetupProgress(Stage.FAILED, error=gone))
        await chat.shows("big.gguf of owner/big is not the file")
        assert "Press Enter to use the current file, without a checksum." in chat.text
        assert "--latest" not in chat.text
        await chat.press("enter")
        await chat.until(lambda: chat.pairs.arguments("set_up")[1:] == [["coder-32b", "latest"]])
        chat.pairs.report("coder-32b", CHECKED)
        await chat.shows("Download 20.0 GB?")
        await chat.press("enter")
        await chat.until(lambda: chat.pairs.arguments("set_up")[2:] == [["coder-32b", "confirmed"]])


async def test_a_pair_that_is_too_big_needs_a_second_enter() -> None:
    async with open_setup() as chat:
        chat.hit("70b", "enter")
        await chat.shows(
            "Does not fit: needs 47.8 GB, 25.0 GB more than is free for models. Enter again to download 43.8 GB anyway"
        )
        assert chat.pairs.arguments("set_up") == []
        await chat.press("enter")
        await chat.until(lambda: chat.pairs.arguments("set_up") == [["llama-70b", "confirmed"]])


async def test_esc_removes_a_question() -> None:
    async with open_setup(first_run=False) as chat:
        await chat.press("enter", shows="Download 20.5 GB? Enter yes")
        await chat.press("escape", until=lambda: "Enter yes" not in chat.text)
        await chat.press("enter", shows="Download 20.5 GB? Enter yes")
        await chat.press("down", "up", until=lambda: "Enter yes" not in chat.text)
        await chat.press("enter")
        assert chat.pairs.arguments("set_up") == []


async def test_an_unknown_size_is_looked_up_before_the_question() -> None:
    async with open_setup(FakePairs(replace(CODER, size="?", download_bytes=None))) as chat:
        await chat.shows("Press Enter to look up its size")
        await chat.press("enter")
        assert chat.pairs.arguments("set_up") == [["coder-32b"]]
        chat.pairs.report("coder-32b", CHECKED)
        await chat.shows("Download 20.0 GB? Enter yes, Esc no", "100.0 GB free on disk.")
        await chat.press("enter")
        assert chat.pairs.arguments("set_up")[1:] == [["coder-32b", "confirmed"]]


async def test_esc_does_not_leave_without_a_chat() -> None:
    async with open_setup() as chat:
        await chat.press("escape", shows="Choose a pair with enter; ctrl+q quits.")
        assert "esc back" not in chat.text


async def test_a_broken_catalog_is_shown_with_the_pairs() -> None:
    async with open_setup(FakePairs(DEMO)) as chat:
        chat.pairs.now = replace(chat.pairs.now, problems=(AppError("models.toml cannot be read.", "Fix it."),))
        await chat.shows("models.toml cannot be read. Fix it.")
        assert "demo" in chat.text


async def test_untrusted_texts_are_shown_as_text() -> None:
    markup = "[red]x[@click=app.quit]x[/][/nonsense]"
    evil = f"{markup}\x1b]0;owned\x07\u202e"
    pair = replace(CODER.pair, name="evil", title=evil, good_at=evil, license=evil, tested_with=evil)
    card = replace(CODER, proposal=Proposal(pair, Fit.FITS, reason=evil), target=evil)
    async with open_setup(FakePairs(card, machine=evil), first_run=False, size=(200, 60)) as chat:
        assert chat.text.count(markup) >= 6
        await chat.press("enter", "enter")
        job = SetupProgress(Stage.FAILED, prepared=with_check(warnings=(evil,)), error=AppError(evil, evil))
        chat.pairs.report("evil", job)
        await chat.until(lambda: chat.text.count(markup) >= 9)
        await chat.press("ctrl+a")
        chat.hit("a/b", "enter", "enter")
        await chat.until(lambda: chat.pairs.arguments("check"))
        prepared = with_check(target=facts(evil, evil), problems=(evil,), warnings=(evil,))
        prepared = replace(prepared, pair=replace(prepared.pair, license=evil))
        chat.pairs.checked_fit = evil
        chat.pairs.checks[-1].progress = SetupProgress(Stage.CHECKED, prepared=prepared)
        await chat.until(lambda: chat.text.count(markup) >= 6)
        assert "\x1b" not in chat.text
        assert "\u202e" not in chat.text
        await chat.in_front("escape", "escape")


async def test_ctrl_d_makes_the_default() -> None:
    pairs = FakePairs(replace(CODER, set_up=True, here=True, is_default=True), replace(DEMO, set_up=True))
    async with open_setup(pairs) as chat:
        await chat.press("down", "ctrl+d", shows="Tandem now opens with demo.")
        assert chat.pairs.arguments("make_default") == [["demo"]]
        await chat.until(lambda: any("demo" in row and "default" in row for row in chat.rows))
        chat.pairs.refuses = AppError("pairs.toml cannot be written.", "Check the disk.")
        await chat.press("ctrl+d", shows="pairs.toml cannot be written.")


async def test_the_recommended_pair_is_on_top_and_chosen() -> None:
    best = replace(SMALL, why="llama-8b is the largest that fits.", proposal=Proposal(SMALL.pair, Fit.FITS, speed=12.0))
    async with open_setup(FakePairs(replace(CODER, here=True), best, DEMO)) as chat:
        await chat.until(lambda: chat.pair == "llama-8b")
        rows = [row.strip() for row in chat.rows]
        order = [rows.index(title) for title in ("★ Recommended for this machine", "On this machine")]
        assert order == sorted(order)
        assert any("llama-8b" in row and row.endswith("fits      about 12 tok/s") for row in rows)
        assert any(row.startswith("coder-32b") and "downloaded" in row for row in rows)


async def test_the_open_pair_is_chosen_and_is_not_loaded_again() -> None:
    is_open = replace(SMALL, here=True, set_up=True, is_open=True, is_default=True)
    async with open_setup(FakePairs(is_open, replace(DEMO, set_up=True), CODER), first_run=False) as chat:
        assert "loaded" in next(row for row in chat.rows if "llama-8b" in row)
        await chat.in_front("enter")
        assert not chat.pairs.arguments("load_request")
        await chat.press("f6")
        chat.hit("demo", "enter")
        await chat.in_front()
        assert chat.pairs.arguments("load_request") == [["demo"]]


@pytest.mark.parametrize(
    ("card", "setup", "shown"),
    [
        (replace(SMALL, proposal=SLOW), None, "slow: about 2 tok/s"),
        (replace(SMALL, why="llama-8b is the largest that fits."), None, "llama-8b is the largest that fits."),
        (
            renamed(SMALL, "a-name-longer-than-its-column"),
            None,
            "a-name-longer-than-its-column",
        ),
        (
            replace(DEMO, is_open=True),
            SetupProgress(Stage.READY, prepared=with_check(warnings=("It is large.",))),
            "It is large.",
        ),
        (CODER, SetupProgress(Stage.FAILED, error=CacheError("The disk is full.", "Make room.")), "Make room."),
    ],
)
async def test_the_chosen_pair_has_its_details(card: PairCard, setup: SetupProgress | None, shown: str) -> None:
    pairs = FakePairs(card, HUGE)
    if setup is not None:
        pairs.report(card.name, setup)
    async with open_setup(pairs, first_run=False, size=(80, 24)) as chat:
        await chat.shows(shown)


async def test_files_that_are_gone_are_an_error() -> None:
    async with open_setup(FakePairs(replace(CODER, set_up=True, here=True))) as chat:
        chat.pairs.refuses = PairError("The files are gone.", "Bring them back.")
        await chat.press("enter", shows="The files are gone. Bring them back.")


async def test_enter_before_the_machine_is_checked_takes_the_first_match_after_it() -> None:
    async with open_setup(FakePairs(*CARDS, machine=None)) as chat:
        chat.hit("llama", "enter")
        await chat.shows("Still checking this machine; the chosen pair opens in a moment.")
        assert not chat.is_adding
        chat.pairs.now = replace(chat.pairs.now, machine=MACHINE)
        await chat.shows("Download 5.7 GB? Enter yes, Esc no")
        assert "coder-32b" not in chat.text
        assert chat.pairs.arguments("set_up") == []


async def test_typing_after_enter_cancels_the_choice() -> None:
    async with open_setup(FakePairs(*CARDS, machine=None)) as chat:
        chat.hit("nothing", "enter")
        await chat.shows("Still checking this machine")
        chat.hit("x")
        await chat.until(lambda: chat.setup.filter_input.value == "nothingx")
        chat.pairs.now = replace(chat.pairs.now, machine=MACHINE)
        await chat.shows(f"This machine: {MACHINE}")
        assert chat.setup.pairs.question is None
        assert not chat.is_adding
