"""The setup screen over scripted pairs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.core.errors import AppError, CacheError, PairError
from app.engine.types import DraftParams
from app.models.recommend import Fit
from app.session.snapshot import Phase
from app.ui.models.state import Download, ModelReport, SetupProgress, SourceCheck, Stage
from tests.ui.models.driver import open_setup
from tests.ui.models.fake_pairs import BEGUN, CARDS, CODER, DEMO, GB, MACHINE, OFFLINE, REPORT, SMALL, FakePairs


async def test_the_first_run_shows_the_machine_and_the_pairs_and_loads_nothing() -> None:
    async with open_setup() as window:
        assert f"This machine: {MACHINE}" in window.text
        for card in CARDS:
            row = next(row for row in window.rows if row[3:].startswith(f"{card.name} "))
            assert card.target[:12] in row
            assert card.draft in row
            assert card.fit is not None
            assert card.fit.value in row
        assert "Choose models" in window.rows[0]
        assert "A big model answers; a small draft model makes it faster." in window.text
        assert [row.strip() for row in window.rows if row.strip() in ("To download", "Try offline (tiny)")] == [
            "To download",
            "Try offline (tiny)",
        ]
        assert window.engine.loads == 0
        assert window.chat.screen.session.phase is Phase.UNLOADED


async def test_the_smallest_window_has_a_line_for_the_chosen_pair() -> None:
    async with open_setup(size=(20, 6)) as window:
        await window.until(lambda: window.rows[1][3:].startswith("coder-32b"))


async def test_where_nothing_is_loaded_the_first_key_is_the_one_that_changes_that() -> None:
    async with open_setup(first_run=False, size=(80, 24)) as window:
        await window.press("escape")
        await window.until(lambda: window.in_chat)
        assert not window.rows[-1].startswith(" f6 models")
        window.engine.fails_to_load(AppError("The file is damaged.", "Download it again."))
        await window.until(lambda: window.rows[-1].startswith(" f6 models"))


async def test_a_download_shows_its_progress_and_opens_when_there_was_nothing_to_chat_with() -> None:
    async with open_setup() as window:
        await window.press("enter")
        await window.shows("Download 20.5 GB? Enter yes, Esc no")
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
        await window.press("enter", "enter")
        stuck = Download("target", GB, 2 * GB, "The hub asks to slow down.", 7)
        window.pairs.goes("coder-32b", SetupProgress(Stage.DOWNLOADING, (stuck,)))
        await window.shows("The hub asks to slow down, retry in 7 s")
        window.pairs.goes(
            "coder-32b", SetupProgress(Stage.DOWNLOADING, (Download("target", 0, GB, "It is busy", 1.0),))
        )
        await window.shows("It is busy")
        assert "retry in" not in window.text, "it is asked again all the time"


async def test_ctrl_x_stops_and_enter_goes_on() -> None:
    async with open_setup() as window:
        await window.press("enter", "enter")
        window.pairs.goes("coder-32b", BEGUN)
        await window.shows("MB/s")
        await window.press("ctrl+x")
        assert window.pairs.names("cancel") == [["coder-32b"]]
        await window.shows("Stopped. Press Enter to resume.")
        assert "stopped 64%" in window.text
        await window.press("enter")
        assert len(window.pairs.names("start")) == 2


async def test_without_a_hub_the_failure_is_on_the_card_and_the_demo_works() -> None:
    async with open_setup(size=(80, 24)) as window:
        await window.press("enter", "enter")
        window.pairs.goes("coder-32b", SetupProgress(Stage.FAILED, error=OFFLINE))
        await window.shows("huggingface.co cannot be found.")
        assert "This machine seems to be offline." in window.text
        await window.shows("demo needs no download")
        window.type("demo", "enter")
        await window.until(lambda: window.pairs.names("start") == [["coder-32b", "agreed"], ["demo"]])
        window.pairs.goes("demo", SetupProgress(Stage.READY))
        await window.until(lambda: window.in_chat)
        assert window.pairs.names("choose") == [["demo"]]
        await window.chat.load()
        await window.chat.send("hello")


async def test_too_big_wants_a_second_enter() -> None:
    async with open_setup() as window:
        window.type("70b", "enter")
        await window.shows(
            "Does not fit: needs 47.8 GB, 22.8 GB are free for models. Enter again to download 43.8 GB anyway"
        )
        assert window.pairs.names("start") == []
        await window.press("enter")
        await window.until(lambda: window.pairs.names("start") == [["llama-70b", "agreed"]])


async def test_esc_takes_a_question_back() -> None:
    async with open_setup(first_run=False) as window:
        await window.press("enter")
        await window.shows("Download 20.5 GB? Enter yes")
        await window.press("escape")
        await window.until(lambda: "Enter yes" not in window.text)
        await window.press("enter")
        await window.shows("Download 20.5 GB? Enter yes")
        await window.press("down", "up")
        await window.until(lambda: "Enter yes" not in window.text)
        await window.press("enter")
        assert window.pairs.names("start") == []


async def test_a_size_that_only_the_hub_knows_is_asked_about_when_it_is_known() -> None:
    async with open_setup(FakePairs(replace(CODER, size="?", to_come=None))) as window:
        await window.shows("Press Enter to look up its size")
        await window.press("enter")
        assert window.pairs.names("start") == [["coder-32b"]]
        window.pairs.goes("coder-32b", SetupProgress(Stage.ASKING, to_come=20 * GB, free=100 * GB))
        await window.shows("Download 20.0 GB? Enter yes, Esc no")
        window.pairs.goes("coder-32b", SetupProgress(Stage.ASKING, to_come=15 * GB, came=5 * GB, free=100 * GB))
        await window.shows("100.0 GB free on disk, 5.0 GB are here already.")
        await window.press("enter")
        assert window.pairs.names("start")[1:] == [["coder-32b", "agreed"]]


async def test_what_an_earlier_download_has_left_is_told() -> None:
    async with open_setup(FakePairs(replace(CODER, to_come=15 * GB, came=5 * GB))) as window:
        await window.shows("Press Enter to download 15.0 GB, 5.0 GB are here already.")


async def test_a_full_disk_is_no_reason_to_do_without_the_hub() -> None:
    async with open_setup(size=(80, 24)) as window:
        await window.press("enter", "enter")
        window.pairs.goes("coder-32b", SetupProgress(Stage.FAILED, error=CacheError("The disk is full.", "Make room.")))
        await window.shows("Make room.")
        assert "needs no download" not in window.text


async def test_without_a_chat_esc_says_what_leads_on() -> None:
    async with open_setup() as window:
        await window.press("escape")
        await window.shows("Choose a pair with enter; ctrl+q quits.")


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
        window.pairs.state = replace(window.pairs.state, troubles=(AppError("models.toml cannot be read.", "Fix it."),))
        await window.shows("models.toml cannot be read. Fix it.")
        assert "demo" in window.text


async def test_nobody_looks_when_nothing_goes_on() -> None:
    async with open_setup() as window:
        window.pairs.state = replace(window.pairs.state, busy=False)
        await window.until(lambda: not window.setup._looking)
        looks = window.pairs.looks
        await window.pilot.pause(0.4)
        assert window.pairs.looks == looks
        window.pairs.state = replace(window.pairs.state, busy=True)
        await window.press("enter", "enter")
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
            SourceCheck(
                report=replace(REPORT, models=(model,), problems=(evil,), warnings=(evil,), reason=evil, licence=evil)
            )
        )
        await window.until(lambda: window.text.count(markup) >= 6)
        assert "\x1b" not in window.text
        assert "\u202e" not in window.text
        await window.press("escape", "escape")
        await window.until(lambda: window.in_chat)


async def test_a_pair_that_is_set_up_opens_at_once() -> None:
    async with open_setup(FakePairs(replace(CODER, set_up=True, here=True))) as window:
        await window.press("enter")
        await window.until(lambda: window.in_chat)
        await window.until(lambda: window.engine.loads == 1)
        await window.chat.load()
        await window.chat.send("hello")
        assert window.engine.requests[0].drafting == DraftParams()


async def test_what_is_typed_behind_enter_on_a_pair_that_is_here_is_for_its_prompt() -> None:
    async with open_setup() as window:
        window.type("demo", "enter")
        window.type("Why is it?")
        await window.until(lambda: window.setup.filter_input.value == "Why is it?")
        assert window.chosen == "demo"
        assert "coder-32b" in window.text, "nothing is filtered by it"
        window.type("", "enter")
        await window.pilot.pause()
        assert window.pairs.names("start") == [["demo"]]
        window.pairs.goes("demo", SetupProgress(Stage.READY))
        await window.until(lambda: window.in_chat)
        await window.until(lambda: window.chat.prompt == "Why is it?")


async def test_what_was_here_and_is_looked_at_opens_beside_a_chat_with_what_was_typed() -> None:
    async with open_setup(FakePairs(replace(DEMO, to_come=0)), first_run=False) as window:
        window.type("demo", "enter")
        window.type("Why is it?")
        await window.until(lambda: window.pairs.names("start"))
        looked_at = (Download("target", GB, GB), Download("draft", GB, GB))
        window.pairs.goes("demo", SetupProgress(Stage.READY, looked_at, note="It was fixed."))
        await window.until(lambda: window.in_chat)
        await window.until(lambda: window.chat.prompt == "Why is it?")
        await window.shows("It was fixed.")


async def test_the_first_pair_becomes_the_default_and_that_is_said() -> None:
    async with open_setup() as window:
        await window.press("enter", "enter")
        window.pairs.change("coder-32b", is_default=True)
        window.pairs.goes("coder-32b", SetupProgress(Stage.READY))
        await window.until(lambda: window.in_chat)
        await window.shows("Tandem now opens with coder-32b.")


async def test_a_later_pair_does_not_and_the_key_for_it_is_named() -> None:
    pairs = FakePairs(replace(DEMO, set_up=True, is_default=True), CODER)
    async with open_setup(pairs, first_run=False) as window:
        await window.press("enter", "enter")
        pairs.goes("coder-32b", replace(BEGUN, stage=Stage.READY))
        await window.shows("Press ctrl+d to make it the default.")


async def test_a_first_choice_that_is_not_the_default_says_how_to_make_it_so() -> None:
    pairs = FakePairs(replace(DEMO, set_up=True, is_default=True), CODER)
    async with open_setup(pairs, size=(140, 40)) as window:
        await window.press("enter", "enter")
        pairs.goes("coder-32b", SetupProgress(Stage.READY))
        await window.until(lambda: window.in_chat)
        await window.shows("Tandem still opens with demo; to change that")


async def test_ctrl_d_makes_the_default() -> None:
    pairs = FakePairs(replace(CODER, set_up=True, here=True, is_default=True), replace(DEMO, set_up=True))
    async with open_setup(pairs) as window:
        await window.press("down", "ctrl+d")
        await window.shows("Tandem now opens with demo.")
        assert window.pairs.names("make_default") == [["demo"]]
        await window.until(lambda: any("demo" in row and "default" in row for row in window.rows))
        window.pairs.refuses = AppError("pairs.toml cannot be written.", "Check the disk.")
        await window.press("ctrl+d")
        await window.shows("pairs.toml cannot be written.")


async def test_the_open_pair_is_loaded_anew_where_its_draft_was_left_out() -> None:
    lacks = replace(SMALL, here=True, set_up=True, is_open=True, lacks_draft=True)
    async with open_setup(FakePairs(lacks, CODER), first_run=False) as window:
        assert "Currently loaded. Its draft failed to load; Enter reloads both." in window.text
        await window.press("enter")
        await window.until(lambda: window.in_chat)
        assert window.pairs.names("choose") == [["llama-8b"]]


async def test_a_pair_that_was_set_up_and_opened_just_now_is_not_offered_to_be_opened() -> None:
    async with open_setup(FakePairs(replace(DEMO, is_open=True)), first_run=False) as window:
        window.pairs.goes("demo", SetupProgress(Stage.READY, warnings=("The draft is large.",)))
        await window.shows("The draft is large.")
        assert "Currently loaded." in window.text
        assert "to open it" not in window.text
        assert "ctrl+d to make" not in window.text


async def test_an_open_pair_whose_file_was_deleted_is_still_the_open_one() -> None:
    async with open_setup(FakePairs(DEMO, replace(SMALL, is_open=True, to_come=None)), first_run=False) as window:
        await window.until(lambda: window.chosen == "llama-8b")
        assert "to be downloaded" not in window.text
        assert "To download" not in window.text
        await window.press("enter")
        await window.shows("llama-8b is already loaded")
        assert not window.pairs.names("start")


async def test_a_file_that_is_gone_is_not_spoken_of_as_a_download() -> None:
    gone = replace(SMALL, size="no file", fit=Fit.UNKNOWN, reason="its files are not here to be measured", to_come=0)
    async with open_setup(FakePairs(gone, DEMO), size=(80, 24)) as window:
        window.type("llama")
        await window.shows("A model file is missing.")
        assert any("no file" in row and row.endswith("unknown") for row in window.rows)


async def test_a_pair_whose_files_are_gone_says_so() -> None:
    async with open_setup(FakePairs(replace(CODER, set_up=True, here=True))) as window:
        window.pairs.refuses = PairError("The files are gone.", "Bring them back.")
        await window.press("enter")
        await window.shows("The files are gone. Bring them back.")


async def test_the_recommended_pair_is_on_top_and_chosen() -> None:
    best = replace(SMALL, why="llama-8b is the largest that fits.", speed="about 12 tok/s")
    async with open_setup(FakePairs(replace(CODER, here=True), best, DEMO)) as window:
        await window.until(lambda: window.chosen == "llama-8b")
        rows = [row.strip() for row in window.rows]
        order = [rows.index(title) for title in ("★ Recommended for this machine", "On this machine")]
        assert order == sorted(order)
        assert any("llama-8b" in row and row.endswith("fits      about 12 tok/s") for row in rows)
        assert any(row.startswith("coder-32b") and "downloaded" in row for row in rows)


async def test_the_open_pair_is_chosen_and_cannot_be_opened_again() -> None:
    is_open = replace(SMALL, here=True, set_up=True, is_open=True, is_default=True)
    async with open_setup(FakePairs(is_open, replace(DEMO, set_up=True), CODER), first_run=False) as window:
        assert "loaded" in next(row for row in window.rows if "llama-8b" in row)
        assert "Currently loaded." in window.text
        await window.press("enter")
        await window.shows("llama-8b is already loaded; esc goes back.")
        window.type("demo", "enter")
        await window.until(lambda: window.in_chat)
        assert window.pairs.names("choose") == [["demo"]]
