"""The set-up screens over pairs that do what a test says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.core.errors import AppError, CacheError
from app.session.snapshot import Phase
from app.ui.models.state import Download, ModelReport, PairCheck, SetupProgress, Stage
from tests.ui.fake_pairs import BEGUN, CARDS, CODER, DEMO, GB, MACHINE, OFFLINE, REPORT, SMALL, FakePairs
from tests.ui.setup_driver import open_setup


async def test_the_first_run_shows_the_machine_and_the_pairs_and_loads_nothing() -> None:
    async with open_setup() as window:
        assert f"This machine: {MACHINE}" in window.text
        for card in CARDS:
            row = next(row for row in window.rows if row[3:].startswith(f"{card.name} "))
            assert card.target[:12] in row
            assert card.draft in row
            assert (card.fit is not None and card.fit.value in row) or card.here
        assert "too big, needs 47.8 GB, 22.8 GB are free for models" in window.text
        assert window.engine.loads == 0
        assert window.chat.screen.session.phase is Phase.UNLOADED


async def test_the_smallest_window_has_a_line_for_the_chosen_pair() -> None:
    async with open_setup(size=(20, 6)) as window:
        await window.until(lambda: window.rows[1][3:].split()[:2] == ["demo", "here"])
        await window.press("down")
        await window.until(lambda: window.rows[1][3:].split()[:2] == ["coder-32b", "fits"])


async def test_where_nothing_is_loaded_the_first_key_is_the_one_that_changes_that() -> None:
    async with open_setup(first_run=False, size=(80, 24)) as window:
        await window.press("escape")
        await window.until(lambda: window.in_chat)
        assert not window.rows[-1].startswith(" f6 models")
        window.engine.fails_to_load(AppError("The file is damaged.", "Download it again."))
        await window.until(lambda: window.rows[-1].startswith(" f6 models"))


async def test_a_download_shows_its_progress_and_opens_when_there_was_nothing_to_chat_with() -> None:
    async with open_setup() as window:
        await window.press("down", "enter")
        await window.shows("Enter again downloads 20.5 GB, esc does not.")
        assert window.pairs.names("start") == []
        await window.press("enter")
        assert window.pairs.names("start") == [["coder-32b", "agreed"]]
        await window.shows("checking")
        window.pairs.goes("coder-32b", BEGUN)
        await window.shows("12.4 / 19.9 GB  94 MB/s  1 min 22 s")
        assert "0.7 /  0.7 GB  ✓" in window.text
        assert "64%" in window.text
        await window.press("enter")
        await window.shows("ctrl+x stops it")
        assert len(window.pairs.names("start")) == 1
        window.pairs.goes("coder-32b", replace(BEGUN, stage=Stage.READY))
        await window.until(lambda: window.in_chat)
        await window.shows("Title of coder-32b")
        assert window.engine.loads == 1


async def test_waiting_is_explained() -> None:
    async with open_setup() as window:
        await window.press("down", "enter", "enter")
        stuck = Download("target", GB, 2 * GB, "The hub asks to slow down.", 7)
        window.pairs.goes("coder-32b", SetupProgress(Stage.DOWNLOADING, (stuck,)))
        await window.shows("The hub asks to slow down, again in 7 s")
        window.pairs.goes(
            "coder-32b", SetupProgress(Stage.DOWNLOADING, (Download("target", 0, GB, "It is busy", 1.0),))
        )
        await window.shows("It is busy")
        assert "again in" not in window.text, "it is asked again all the time"


async def test_how_headers_come_is_told() -> None:
    async with open_setup(size=(80, 24)) as window:
        await window.press("down", "enter", "enter")
        window.pairs.goes(
            "coder-32b", SetupProgress(Stage.CHECKING, looking="Looking at big.gguf: 1.2 MB of its header")
        )
        await window.shows("Looking at big.gguf: 1.2 MB of its header")
        window.pairs.goes("coder-32b", BEGUN)
        await window.until(lambda: "of its header" not in window.text)


async def test_what_is_typed_behind_a_set_up_that_failed_filters_again() -> None:
    async with open_setup() as window:
        await window.press("enter")
        window.pairs.goes("demo", SetupProgress(Stage.FAILED, error=AppError("It broke.", "Mend it.")))
        await window.shows("It broke.")
        window.type("llama")
        await window.until(lambda: "coder-32b" not in window.text)


async def test_a_wait_is_told_in_one_line_beside_as_much_of_a_bar_as_there_is_room_for() -> None:
    async with open_setup(size=(80, 24)) as window:
        await window.press("down", "enter", "enter")
        for said, has_bar in (("The hub asks to slow down.", True), (f"The connection to {'h' * 20} broke.", False)):
            window.pairs.goes(
                "coder-32b", SetupProgress(Stage.DOWNLOADING, (Download("target", GB, 2 * GB, said, 60),))
            )
            whole = f"{said[:-1]}, again in 60 s"
            await window.shows(whole)
            [row] = [row for row in window.text.splitlines() if whole in row]
            assert row.strip().startswith("target")
            assert ("━" in row) is has_bar


async def test_ctrl_x_stops_and_enter_goes_on() -> None:
    async with open_setup() as window:
        await window.press("down", "enter", "enter")
        window.pairs.goes("coder-32b", BEGUN)
        await window.shows("MB/s")
        await window.press("ctrl+x")
        assert window.pairs.names("cancel") == [["coder-32b"]]
        await window.shows("What was downloaded is kept; enter goes on.")
        assert "stopped, 64%" in window.text
        await window.press("enter")
        assert len(window.pairs.names("start")) == 2


async def test_without_a_hub_the_failure_is_on_the_card_and_the_demo_works() -> None:
    async with open_setup(size=(80, 24)) as window:
        await window.press("down", "enter", "enter")
        window.pairs.goes("coder-32b", SetupProgress(Stage.FAILED, error=OFFLINE))
        await window.shows("huggingface.co cannot be found.")
        assert "This machine seems to be offline." in window.text
        await window.shows("Without the hub: demo, the first line, needs no download")
        window.type("", "up", "enter")
        await window.until(lambda: window.pairs.names("start") == [["coder-32b", "agreed"], ["demo"]])
        window.pairs.goes("demo", SetupProgress(Stage.READY))
        await window.until(lambda: window.in_chat)
        assert window.pairs.names("choose") == [["demo"]]
        await window.chat.load()
        await window.chat.send("hello")


async def test_too_big_wants_a_second_enter() -> None:
    async with open_setup() as window:
        window.type("70b", "enter")
        await window.shows("It needs 47.8 GB, 22.8 GB are free for models. Enter again downloads 43.8 GB all the same.")
        assert window.pairs.names("start") == []
        await window.press("enter")
        await window.until(lambda: window.pairs.names("start") == [["llama-70b", "agreed"]])


async def test_esc_takes_a_question_back() -> None:
    async with open_setup(first_run=False) as window:
        await window.press("down", "enter")
        await window.shows("Enter again downloads 20.5 GB")
        await window.press("escape")
        await window.until(lambda: "Enter again" not in window.text)
        await window.press("enter")
        await window.shows("Enter again downloads 20.5 GB")
        await window.press("down", "up")
        await window.until(lambda: "Enter again" not in window.text)
        await window.press("enter")
        assert window.pairs.names("start") == []


async def test_a_size_that_only_the_hub_knows_is_asked_about_when_it_is_known() -> None:
    async with open_setup(FakePairs(replace(CODER, size="?", to_come=None))) as window:
        await window.shows("enter asks the hub how large it is")
        await window.press("enter")
        assert window.pairs.names("start") == [["coder-32b"]]
        window.pairs.goes("coder-32b", SetupProgress(Stage.ASKING, to_come=20 * GB, free=100 * GB))
        await window.shows("Enter again downloads 20.0 GB; 100.0 GB of disk are free.")
        window.pairs.goes("coder-32b", SetupProgress(Stage.ASKING, to_come=15 * GB, came=5 * GB, free=100 * GB))
        await window.shows("Enter again downloads 15.0 GB, 5.0 GB are here already; 100.0 GB of disk are free.")
        await window.press("enter")
        assert window.pairs.names("start")[1:] == [["coder-32b", "agreed"]]


async def test_what_an_earlier_download_has_left_is_told() -> None:
    async with open_setup(FakePairs(replace(CODER, to_come=15 * GB, came=5 * GB))) as window:
        await window.shows("15.0 GB to download, 5.0 GB are here already; enter asks once more")


async def test_a_full_disk_is_no_reason_to_do_without_the_hub() -> None:
    async with open_setup(size=(80, 24)) as window:
        await window.press("down", "enter", "enter")
        window.pairs.goes("coder-32b", SetupProgress(Stage.FAILED, error=CacheError("The disk is full.", "Make room.")))
        await window.shows("Make room.")
        assert "Without the hub" not in window.text


async def test_without_a_chat_esc_says_what_leads_on() -> None:
    async with open_setup() as window:
        await window.press("escape")
        await window.shows("There is no chat yet: choose a pair with enter; ctrl+q quits.")


async def test_esc_leaves_only_where_there_is_a_chat_to_go_back_to() -> None:
    async with open_setup() as window:
        await window.press("escape")
        assert not window.in_chat
        assert "esc back" not in window.text
    async with open_setup(first_run=False) as window:
        await window.press("escape")
        await window.until(lambda: window.in_chat)
        assert window.engine.loads == 1


async def test_why_a_pair_is_proposed_is_said_and_a_slow_one_called_so() -> None:
    said = "coder-32b is the largest that should answer as fast as people read, about 11 tok/s."
    pairs = FakePairs(replace(CODER, why=said), replace(SMALL, slow=True, reason="about 2 tok/s; 4 GB to spare"))
    async with open_setup(pairs, size=(80, 24)) as window:
        await window.shows(said.split(", about")[0])
        assert any("llama-8b" in row and row.endswith("slow") for row in window.rows)
        await window.press("down")
        await window.shows("slow: about 2 tok/s")


async def test_a_name_that_is_longer_than_its_column_stands_whole_in_the_details() -> None:
    name = "a-model-of-my-own-with-a-long-name-q4"
    async with open_setup(FakePairs(replace(DEMO, name=name, title=name), DEMO), size=(80, 24)) as window:
        assert name in window.text
        assert sum("a-model-of-my-own" in row for row in window.rows) == 2, "once in its line, once whole"


async def test_a_broken_catalogue_is_named_beside_the_pairs() -> None:
    async with open_setup(FakePairs(DEMO)) as window:
        window.pairs.state = replace(
            window.pairs.state, troubles=(AppError("models.toml cannot be read.", "Mend it."),)
        )
        await window.shows("models.toml cannot be read. Mend it.")
        assert "demo" in window.text


async def test_nobody_looks_when_nothing_goes_on() -> None:
    async with open_setup() as window:
        window.pairs.state = replace(window.pairs.state, busy=False)
        await window.until(lambda: not window.setup._looking)
        looks = window.pairs.looks
        await window.pilot.pause(0.4)
        assert window.pairs.looks == looks
        window.pairs.state = replace(window.pairs.state, busy=True)
        await window.press("down", "enter", "enter")
        await window.until(lambda: window.pairs.looks > looks + 1)


@pytest.mark.parametrize("markup", ["[red]not red[/red]", "[@click=app.quit]x[/]", "[/nonsense]"])
async def test_texts_from_outside_are_only_text(markup: str) -> None:
    evil = f"{markup}\x1b]0;owned\x07\u202e"
    card = replace(
        CODER, name="evil", title=evil, target=evil, reason=evil, good_at=evil, licence=evil, tested_with=evil
    )
    async with open_setup(FakePairs(card, machine=evil), first_run=False, size=(200, 60)) as window:
        assert window.text.count(markup) >= 6
        await window.press("enter", "enter")
        job = SetupProgress(Stage.FAILED, warnings=(evil,), error=AppError(evil, evil))
        window.pairs.goes("evil", job)
        await window.until(lambda: window.text.count(markup) >= 9)
        await window.press("ctrl+a")
        window.type("a/b", "enter", "enter")
        await window.until(lambda: window.pairs.names("ask"))
        model = ModelReport("target", evil, evil, GB)
        window.pairs.answers(
            PairCheck(
                report=replace(REPORT, models=(model,), problems=(evil,), warnings=(evil,), reason=evil, licence=evil)
            )
        )
        await window.until(lambda: window.text.count(markup) >= 6)
        assert "\x1b" not in window.text
        assert "\u202e" not in window.text
        await window.press("escape", "escape")
        await window.until(lambda: window.in_chat)
