"""Pairs that are on this machine already, on the set-up screen: opened, marked, the default, or gone."""

from __future__ import annotations

from dataclasses import replace

from app.core.errors import AppError, PairError
from app.engine.types import DraftParams
from app.models.recommend import Fit
from app.ui.models.state import Download, SetupProgress, Stage
from tests.ui.fake_pairs import BEGUN, CODER, DEMO, GB, SMALL, FakePairs
from tests.ui.setup_driver import open_setup


async def test_what_is_here_is_on_top_and_opens_without_a_question() -> None:
    async with open_setup(size=(80, 24)) as window:
        assert window.chosen == "demo"
        assert "enter opens it, nothing is downloaded" in window.text
        rows = window.rows
        assert rows.index(" On this machine") < rows.index(" To download, the best for this machine first")
        await window.press("enter")
        assert window.pairs.names("start") == [["demo"]]
        await window.shows("checking")
        await window.press("ctrl+x")
        window.type("32b")
        await window.until(lambda: "On this machine" not in window.text)
        assert "To download" in window.text


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
        await window.shows("It is on its way")
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
        window.pairs.goes("demo", SetupProgress(Stage.READY, looked_at, note="It was mended."))
        await window.until(lambda: window.in_chat)
        await window.until(lambda: window.chat.prompt == "Why is it?")
        await window.shows("It was mended.")


async def test_the_first_pair_becomes_the_default_and_that_is_said() -> None:
    async with open_setup() as window:
        await window.press("down", "enter", "enter")
        window.pairs.change("coder-32b", is_default=True)
        window.pairs.goes("coder-32b", SetupProgress(Stage.READY))
        await window.until(lambda: window.in_chat)
        await window.shows("Tandem opens with coder-32b from now on.")


async def test_a_later_pair_does_not_and_the_key_for_it_is_named() -> None:
    pairs = FakePairs(replace(DEMO, set_up=True, is_default=True), CODER)
    async with open_setup(pairs, first_run=False) as window:
        await window.press("down", "enter", "enter")
        pairs.goes("coder-32b", replace(BEGUN, stage=Stage.READY))
        await window.shows("ctrl+d makes it the one that Tandem opens with.")
    async with open_setup(pairs, first_run=True, size=(140, 40)) as window:
        pairs.change("coder-32b", set_up=False, here=False, to_come=GB)
        await window.until(lambda: window.chosen == "demo")
        await window.press("down", "enter", "enter")
        pairs.goes("coder-32b", SetupProgress(Stage.READY))
        await window.until(lambda: window.in_chat)
        await window.shows("Tandem still opens with demo; f6, then ctrl+d on coder-32b")


async def test_ctrl_d_makes_the_default() -> None:
    pairs = FakePairs(replace(CODER, set_up=True, here=True, is_default=True), replace(DEMO, set_up=True))
    async with open_setup(pairs) as window:
        await window.press("down", "ctrl+d")
        await window.shows("Tandem opens with demo from now on.")
        assert window.pairs.names("make_default") == [["demo"]]
        await window.until(lambda: any("demo" in row and "default" in row for row in window.rows))
        window.pairs.refuses = AppError("pairs.toml cannot be written.", "Check the disk.")
        await window.press("ctrl+d")
        await window.shows("pairs.toml cannot be written.")


async def test_the_open_pair_is_marked_and_taking_it_again_says_so_and_loads_nothing() -> None:
    is_open = replace(SMALL, here=True, set_up=True, is_open=True, is_default=True)
    async with open_setup(FakePairs(is_open, replace(DEMO, set_up=True), CODER), first_run=False) as window:
        row = next(row for row in window.rows if "llama-8b" in row)
        assert "open, default" in row
        assert "The chat has this pair." in window.text
        await window.press("enter")
        await window.shows("The chat has llama-8b already; esc goes back to it.")
        assert not window.in_chat
        await window.press("down", "enter")
        await window.until(lambda: window.in_chat)
        assert window.pairs.names("choose") == [["demo"]]


async def test_the_open_pair_is_loaded_anew_where_its_draft_was_left_out() -> None:
    lacks = replace(SMALL, here=True, set_up=True, is_open=True, lacks_draft=True)
    async with open_setup(FakePairs(lacks, CODER), first_run=False) as window:
        assert "The chat has this pair without its draft, which failed; enter loads both anew." in window.text
        await window.press("enter")
        await window.until(lambda: window.in_chat)
        assert window.pairs.names("choose") == [["llama-8b"]]


async def test_a_pair_that_was_set_up_and_opened_just_now_is_not_offered_to_be_opened() -> None:
    async with open_setup(FakePairs(replace(DEMO, is_open=True)), first_run=False) as window:
        window.pairs.goes("demo", SetupProgress(Stage.READY, warnings=("The draft is large.",)))
        await window.shows("The draft is large.")
        assert "The chat has this pair." in window.text
        assert "enter opens it" not in window.text
        assert "ctrl+d makes it" not in window.text


async def test_a_narrow_line_has_a_word_for_the_open_pair() -> None:
    is_open = replace(SMALL, here=True, set_up=True, is_open=True, is_default=True)
    async with open_setup(FakePairs(DEMO, is_open), first_run=False, size=(80, 24)) as window:
        assert [row.split()[-1] for row in window.rows if " llama-8b " in row and "GB" in row] == ["open"]


async def test_an_open_pair_whose_file_was_deleted_is_still_the_open_one() -> None:
    async with open_setup(FakePairs(DEMO, replace(SMALL, is_open=True, to_come=None)), first_run=False) as window:
        await window.until(lambda: window.chosen == "llama-8b")
        assert "to be downloaded" not in window.text
        assert "To download" not in window.text
        await window.press("enter")
        await window.shows("The chat has llama-8b already")
        assert not window.pairs.names("start")


async def test_a_file_that_is_gone_is_not_spoken_of_as_a_download() -> None:
    gone = replace(SMALL, size="no file", fit=Fit.UNKNOWN, reason="its files are not here to be measured", to_come=0)
    async with open_setup(FakePairs(gone, DEMO), size=(80, 24)) as window:
        await window.press("down")
        await window.shows("A file of it is not where it was")
        assert any(row.endswith("no file  unknown") for row in window.rows)


async def test_a_pair_whose_files_are_gone_says_so() -> None:
    async with open_setup(FakePairs(replace(CODER, set_up=True, here=True))) as window:
        window.pairs.refuses = PairError("The files are gone.", "Bring them back.")
        await window.press("enter")
        await window.shows("The files are gone. Bring them back.")
