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
    with_check,
)

LONG = "a-name-longer-than-its-column"
SLOW = Proposal(SMALL.pair, Fit.FITS, reason="about 2 tok/s", slow=True)


async def test_the_first_run_shows_the_machine_and_the_pairs_and_loads_nothing() -> None:
    async with open_setup() as window:
        assert f"This machine: {MACHINE}" in window.text
        for card in CARDS:
            row = next(row for row in window.rows if row[3:].startswith(f"{card.name} "))
            assert card.target[:12] in row
            assert card.draft in row
            assert card.proposal.word in row
        assert "Choose a pair" in window.rows[0]
        assert "A big model answers; a small draft model makes it faster." in window.text
        assert [row.strip() for row in window.rows if row.strip() in ("To download", "Try offline (tiny)")] == [
            "To download",
            "Try offline (tiny)",
        ]
        assert window.engine.loads == 0
        assert window.chat.screen.session.phase is Phase.UNLOADED


@pytest.mark.parametrize("size", [(80, 24), (20, 6)])
async def test_the_open_pair_is_scrolled_into_view(size: tuple[int, int]) -> None:
    others = [replace(SMALL, pair=replace(SMALL.pair, name=f"pair-{n}")) for n in range(20)]
    pairs = FakePairs(*others, replace(DEMO, set_up=True, is_open=True))
    async with open_setup(pairs, first_run=False, size=size) as window:
        await window.stands_still()
        assert f"{MARK} demo" in window.text


async def test_the_first_download_shows_its_progress_and_opens() -> None:
    async with open_setup() as window:
        await window.press("enter", shows="Download 20.5 GB? Enter yes, Esc no")
        assert window.pairs.arguments("set_up") == []
        await window.press("enter")
        assert window.pairs.arguments("set_up") == [["coder-32b", "confirmed"]]
        await window.shows("checking")
        window.pairs.report("coder-32b", BEGUN)
        await window.shows("12.4 / 19.9 GB  94 MB/s  1 min 19 s")
        assert "0.7 /  0.7 GB  ✓" in window.text
        assert "64%" in window.text
        await window.press("enter", shows="ctrl+x stops it")
        assert len(window.pairs.arguments("set_up")) == 1
        window.pairs.report("coder-32b", replace(BEGUN, stage=Stage.READY))
        await window.until(lambda: window.in_chat)
        await window.shows("Title of coder-32b")
        assert "from now on" not in window.text
        assert window.engine.loads == 1


async def test_a_first_pair_says_that_tandem_opens_with_it() -> None:
    async with open_setup(FakePairs(replace(CODER, here=True, is_default=True))) as window:
        await window.press("enter")
        window.pairs.report("coder-32b", SetupProgress(Stage.READY))
        await window.shows("Tandem opens with this pair from now on; f6 changes that.")


async def test_waiting_is_explained() -> None:
    async with open_setup() as window:
        await window.press("enter", "enter")
        waiting = FileProgress("target", GB, 2 * GB, "The hub asks to slow down.", 7)
        setup = SetupProgress(Stage.DOWNLOADING, (waiting,))
        window.pairs.report("coder-32b", setup)
        await window.shows("The hub asks to slow down, retry in 7 s")


async def test_ctrl_x_stops_and_enter_continues() -> None:
    async with open_setup() as window:
        await window.press("enter", "enter")
        window.pairs.report("coder-32b", BEGUN)
        await window.shows("MB/s")
        await window.press("ctrl+x")
        assert window.pairs.arguments("cancel_setup") == [["coder-32b"]]
        await window.shows("Stopped. Press Enter to resume.")
        assert "stopped 64%" in window.text
        await window.press("enter")
        assert len(window.pairs.arguments("set_up")) == 2


async def test_offline_the_failure_is_shown_and_the_demo_works() -> None:
    async with open_setup(size=(80, 24)) as window:
        await window.press("enter", "enter")
        window.pairs.report("coder-32b", SetupProgress(Stage.FAILED, error=OFFLINE))
        await window.shows("huggingface.co cannot be found.")
        assert "This machine seems to be offline." in window.text
        await window.shows("demo needs no download")
        window.type("demo", "enter")
        await window.until(lambda: window.pairs.arguments("set_up") == [["coder-32b", "confirmed"], ["demo"]])
        window.pairs.report("demo", SetupProgress(Stage.READY))
        await window.until(lambda: window.in_chat)
        assert window.pairs.arguments("load_request") == [["demo"]]
        await window.chat.load()
        await window.chat.send("hello")


async def test_a_missing_file_is_named_and_one_key_accepts_the_current_file() -> None:
    gone = FileChangedError(
        "big.gguf of owner/big is not the file that this pair was made with.", "tandem setup --latest"
    )
    async with open_setup(size=(80, 24)) as window:
        await window.press("enter", "enter")
        window.pairs.report("coder-32b", SetupProgress(Stage.FAILED, error=gone))
        await window.shows("big.gguf of owner/big is not the file")
        assert "Press Enter to use the current file, without a checksum." in window.text
        assert "--latest" not in window.text
        await window.press("enter")
        await window.until(lambda: window.pairs.arguments("set_up")[1:] == [["coder-32b", "latest"]])
        window.pairs.report("coder-32b", CHECKED)
        await window.shows("Download 20.0 GB?")
        await window.press("enter")
        await window.until(lambda: window.pairs.arguments("set_up")[2:] == [["coder-32b", "confirmed"]])


async def test_a_pair_that_is_too_big_needs_a_second_enter() -> None:
    async with open_setup() as window:
        window.type("70b", "enter")
        await window.shows(
            "Does not fit: needs 47.8 GB, 25.0 GB more than is free for models. Enter again to download 43.8 GB anyway"
        )
        assert window.pairs.arguments("set_up") == []
        await window.press("enter")
        await window.until(lambda: window.pairs.arguments("set_up") == [["llama-70b", "confirmed"]])


async def test_esc_removes_a_question() -> None:
    async with open_setup(first_run=False) as window:
        await window.press("enter", shows="Download 20.5 GB? Enter yes")
        await window.press("escape")
        await window.until(lambda: "Enter yes" not in window.text)
        await window.press("enter", shows="Download 20.5 GB? Enter yes")
        await window.press("down", "up")
        await window.until(lambda: "Enter yes" not in window.text)
        await window.press("enter")
        assert window.pairs.arguments("set_up") == []


async def test_an_unknown_size_is_looked_up_before_the_question() -> None:
    async with open_setup(FakePairs(replace(CODER, size="?", download_bytes=None))) as window:
        await window.shows("Press Enter to look up its size")
        await window.press("enter")
        assert window.pairs.arguments("set_up") == [["coder-32b"]]
        window.pairs.report("coder-32b", CHECKED)
        await window.shows("Download 20.0 GB? Enter yes, Esc no")
        await window.shows("100.0 GB free on disk.")
        await window.press("enter")
        assert window.pairs.arguments("set_up")[1:] == [["coder-32b", "confirmed"]]


async def test_esc_leaves_only_to_a_chat() -> None:
    async with open_setup() as window:
        await window.press("escape", shows="Choose a pair with enter; ctrl+q quits.")
        assert "esc back" not in window.text
    async with open_setup(first_run=False) as window:
        await window.press("escape")
        await window.until(lambda: window.in_chat)
        assert window.engine.loads == 1


async def test_a_broken_catalog_is_shown_with_the_pairs() -> None:
    async with open_setup(FakePairs(DEMO)) as window:
        window.pairs.now = replace(window.pairs.now, problems=(AppError("models.toml cannot be read.", "Fix it."),))
        await window.shows("models.toml cannot be read. Fix it.")
        assert "demo" in window.text


async def test_untrusted_texts_are_shown_as_text() -> None:
    markup = "[red]x[@click=app.quit]x[/][/nonsense]"
    evil = f"{markup}\x1b]0;owned\x07\u202e"
    card = replace(
        CODER,
        pair=replace(CODER.pair, name="evil", title=evil, good_at=evil, license=evil, tested_with=evil),
        proposal=Proposal(CODER.pair, Fit.FITS, reason=evil),
        target=evil,
    )
    async with open_setup(FakePairs(card, machine=evil), first_run=False, size=(200, 60)) as window:
        assert window.text.count(markup) >= 6
        await window.press("enter", "enter")
        job = SetupProgress(Stage.FAILED, prepared=with_check(warnings=(evil,)), error=AppError(evil, evil))
        window.pairs.report("evil", job)
        await window.until(lambda: window.text.count(markup) >= 9)
        await window.press("ctrl+a")
        window.type("a/b", "enter", "enter")
        await window.until(lambda: window.pairs.arguments("check_sources"))
        prepared = with_check(target=facts(evil, evil), problems=(evil,), warnings=(evil,))
        prepared = replace(prepared, pair=replace(prepared.pair, license=evil))
        window.pairs.report_check(SetupProgress(Stage.CHECKED, prepared=prepared), evil)
        await window.until(lambda: window.text.count(markup) >= 6)
        assert "\x1b" not in window.text
        assert "\u202e" not in window.text
        await window.press("escape", "escape")
        await window.until(lambda: window.in_chat)


async def test_ctrl_d_makes_the_default() -> None:
    pairs = FakePairs(replace(CODER, set_up=True, here=True, is_default=True), replace(DEMO, set_up=True))
    async with open_setup(pairs) as window:
        await window.press("down", "ctrl+d", shows="Tandem now opens with demo.")
        assert window.pairs.arguments("make_default") == [["demo"]]
        await window.until(lambda: any("demo" in row and "default" in row for row in window.rows))
        window.pairs.refuses = AppError("pairs.toml cannot be written.", "Check the disk.")
        await window.press("ctrl+d", shows="pairs.toml cannot be written.")


async def test_the_recommended_pair_is_on_top_and_chosen() -> None:
    best = replace(SMALL, why="llama-8b is the largest that fits.", proposal=Proposal(SMALL.pair, Fit.FITS, speed=12.0))
    async with open_setup(FakePairs(replace(CODER, here=True), best, DEMO)) as window:
        await window.until(lambda: window.chosen == "llama-8b")
        rows = [row.strip() for row in window.rows]
        order = [rows.index(title) for title in ("★ Recommended for this machine", "On this machine")]
        assert order == sorted(order)
        assert any("llama-8b" in row and row.endswith("fits      about 12 tok/s") for row in rows)
        assert any(row.startswith("coder-32b") and "downloaded" in row for row in rows)


async def test_the_open_pair_is_chosen_and_is_not_loaded_again() -> None:
    is_open = replace(SMALL, here=True, set_up=True, is_open=True, is_default=True)
    async with open_setup(FakePairs(is_open, replace(DEMO, set_up=True), CODER), first_run=False) as window:
        assert "loaded" in next(row for row in window.rows if "llama-8b" in row)
        await window.press("enter")
        await window.until(lambda: window.in_chat)
        assert not window.pairs.arguments("load_request")
        await window.press("f6")
        window.type("demo", "enter")
        await window.until(lambda: window.in_chat)
        assert window.pairs.arguments("load_request") == [["demo"]]


@pytest.mark.parametrize(
    ("card", "setup", "shown"),
    [
        (replace(SMALL, proposal=SLOW), None, "slow: about 2 tok/s"),
        (replace(SMALL, why="llama-8b is the largest that fits."), None, "llama-8b is the largest that fits."),
        (
            replace(SMALL, pair=replace(SMALL.pair, name="a-name-longer-than-its-column")),
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
    async with open_setup(pairs, first_run=False, size=(80, 24)) as window:
        await window.shows(shown)


async def test_files_that_are_gone_are_an_error() -> None:
    async with open_setup(FakePairs(replace(CODER, set_up=True, here=True))) as window:
        window.pairs.refuses = PairError("The files are gone.", "Bring them back.")
        await window.press("enter", shows="The files are gone. Bring them back.")


async def test_enter_before_the_machine_is_checked_takes_the_first_match_after_it() -> None:
    async with open_setup(FakePairs(*CARDS, machine=None)) as window:
        window.type("llama", "enter")
        await window.shows("Still checking this machine; the chosen pair opens in a moment.")
        assert not window.is_adding
        window.pairs.now = replace(window.pairs.now, machine=MACHINE)
        await window.shows("Download 5.7 GB? Enter yes, Esc no")
        assert "coder-32b" not in window.text
        assert window.pairs.arguments("set_up") == []


async def test_typing_after_enter_cancels_the_choice() -> None:
    async with open_setup(FakePairs(*CARDS, machine=None)) as window:
        window.type("nothing", "enter")
        await window.shows("Still checking this machine")
        window.type("x")
        await window.until(lambda: window.setup.filter_input.value == "nothingx")
        window.pairs.now = replace(window.pairs.now, machine=MACHINE)
        await window.shows(f"This machine: {MACHINE}")
        assert window.setup.pairs.question is None
        assert not window.is_adding
