"""The set-up screens over pairs that do what a test says."""

from __future__ import annotations

from dataclasses import replace

import pytest
from textual import events

from app.chat.message import Message, Role
from app.engine.types import DraftParams, FinishReason
from app.errors import AppError, HubError, PairError
from app.pairing.propose import Fit
from app.ui.chat.session import Phase
from app.ui.pairs.downloads import line_text
from app.ui.pairs.setups import Download, Inquiry, Job, ModelReport, Report, Stage
from app.ui.screens.setup import SetupScreen
from tests.ui.chat_driver import open_chat
from tests.ui.fake_pairs import BEGUN, CARDS, CODER, DEMO, GB, GENERAL, HUGE, MACHINE, SMALL, FakePairs
from tests.ui.setup_driver import open_setup

OFFLINE = HubError("huggingface.co cannot be found.", "This machine seems to be offline.")
REPORT = Report(
    models=(
        ModelReport("target", "Big One", "Q4_K_M", 20 * GB),
        ModelReport("draft", "Small One", "Q8_0", GB, here=True),
    ),
    warnings=("The draft is old.",),
    fit=Fit.TIGHT,
    reason="only 0.4 GB to spare",
    licence="apache-2.0",
    gated=True,
    download_bytes=20 * GB,
    free_bytes=100 * GB,
)


async def test_the_first_run_shows_the_machine_and_the_pairs_and_loads_nothing() -> None:
    async with open_setup() as window:
        assert f"This machine: {MACHINE}" in window.text
        for card in CARDS:
            row = next(row for row in window.rows if row[3:].startswith(f"{card.name} "))
            assert card.target in row
            assert (card.fit is not None and card.fit.value in row) or card.here
        assert "too big, needs 47.8 GB of memory, 22.8 GB are free" in window.text
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


async def test_only_the_chosen_pair_tells_more() -> None:
    async with open_setup(FakePairs(CODER, GENERAL, SMALL)) as window:
        assert "1.9x on an RTX 3090" in window.text
        assert "an all-rounder" not in window.text
        await window.press("down", "down")
        assert window.chosen == "llama-8b"
        await window.shows("an all-rounder")
        assert "licence llama3.1" in window.text
        assert "1.9x on an RTX 3090" not in window.text


async def test_while_the_machine_is_being_looked_at_only_what_no_look_changes_is_listed() -> None:
    pairs = FakePairs(*(replace(c, fit=None, reason="") for c in CARDS), machine="")
    async with open_setup(pairs) as window:
        assert "Looking at this machine" in window.text
        assert "To download: seeing what this machine can run" in window.text
        assert "coder-32b" not in window.text
        before = window.rows
        at = next(i for i, row in enumerate(before) if row[3:].startswith("demo"))
        pairs.state = replace(pairs.state, machine="An abacus", cards=tuple(reversed(CARDS)))
        await window.shows("This machine: An abacus")
        await window.shows("To download, the best for this machine first")
        assert window.rows[at] == before[at]
        assert window.chosen == "demo"
        names = [row.split()[0] for row in window.rows if row[3:4].isalpha() and "Q4_K_M" in row]
        assert names == [card.name for card in reversed(CARDS) if card is not DEMO]


async def test_with_nothing_here_the_first_of_the_list_is_chosen_when_it_comes_and_stays_so() -> None:
    async with open_setup(FakePairs(CODER, SMALL, machine="")) as window:
        await window.until(lambda: window.setup.pairs.adds)
        window.pairs.state = replace(window.pairs.state, machine="An abacus")
        await window.until(lambda: window.chosen == "coder-32b")
        window.pairs.state = replace(window.pairs.state, cards=(SMALL, CODER))
        await window.until(lambda: 0 <= window.text.find("llama-8b") < window.text.find("coder-32b"))
        assert window.chosen == "coder-32b"


async def test_a_pair_that_turns_out_not_to_be_here_is_not_what_enter_means() -> None:
    async with open_setup(FakePairs(DEMO, replace(CODER, here=True), machine="")) as window:
        assert window.chosen == "demo"
        cards = (replace(CODER, here=True), replace(DEMO, here=False))
        window.pairs.state = replace(window.pairs.state, machine="An abacus", cards=cards)
        await window.until(lambda: window.chosen == "coder-32b")


async def test_a_filter_that_is_typed_before_the_list_is_there_holds_when_it_comes() -> None:
    async with open_setup(FakePairs(machine="")) as window:
        window.type("llama", "enter")
        await window.shows("still being looked at")
        assert not window.is_adding
        window.pairs.state = replace(window.pairs.state, machine="An abacus")
        await window.until(lambda: window.chosen == "llama-8b")
        assert "coder-32b" not in window.text


async def test_what_drafting_gains_is_said_before_the_download_and_while_that_is_asked() -> None:
    gain = "Drafting usually gains little with Q4 weights on a processor"
    async with open_setup(
        FakePairs(replace(CODER, gain=f"{gain}; look-up still helps."), SMALL), size=(80, 24)
    ) as window:
        await window.shows(gain)
        await window.press("enter")
        await window.shows("Enter again downloads 20.5 GB")
        assert gain in window.text
        await window.press("down")
        await window.until(lambda: gain not in window.text)


async def test_esc_clears_the_filter_first_and_leaves_when_there_is_none() -> None:
    async with open_setup(first_run=False) as window:
        window.type("llama", "escape")
        await window.until(lambda: window.setup.filter_input.value == "" and "coder-32b" in window.text)
        assert not window.in_chat
        assert window.chosen == "llama-8b"
        window.type("", "escape")
        await window.until(lambda: window.in_chat)


async def test_esc_waits_for_what_was_typed_before_it() -> None:
    async with open_setup(first_run=False) as window:
        setup, values = window.setup, list[str]()
        setup.watch(setup.filter_input, "value", lambda value: values.append(value), init=False)
        for character in "llama":
            setup.filter_input.post_message(events.Key(character, character))
        setup.action_leave()
        await window.until(lambda: values[-2:] == ["llama", ""])
        assert not window.in_chat


async def test_f1_shows_the_keys_of_the_list() -> None:
    async with open_setup() as window:
        await window.press("f1")
        await window.shows("Pairs")
        for key, does in (("enter", "Set the pair up"), ("ctrl+a", "Add any"), ("ctrl+d", "Always open with it")):
            assert any(row.split()[:1] == [key] and does in row for row in window.rows)
        assert any(row.split()[:1] == ["ctrl+x"] and "Stop its download" in row for row in window.rows)
        assert any(row.split()[:1] == ["esc"] and "Clear the filter" in row for row in window.rows)


async def test_a_long_name_is_cut_before_what_tells_quantisation_and_draft() -> None:
    long = replace(CODER, target="Qwen2.5-Coder-32B-Instruct-With-More Q4_K_M", draft="0.5B Q8_0")
    async with open_setup(FakePairs(long, SMALL), size=(80, 24)) as window:
        row = next(row for row in window.rows if "coder-32b " in row)
        assert "Qwen2.5-Coder-32B-I" in row
        assert "… Q4_K_M + 0.5B Q8_0 " in row


async def test_what_grows_stays_in_view_but_does_not_bring_back_whoever_scrolled_away() -> None:
    async with open_setup(size=(80, 20)) as window:
        pairs, name = window.setup.pairs, HUGE.name
        await window.press(*["down"] * 5)
        await window.until(lambda: window.chosen == name)

        async def warn(*warnings: str) -> None:
            height = pairs.virtual_size.height
            window.pairs.goes(name, Job(Stage.STOPPED, warnings=warnings))
            await window.until(lambda: pairs.virtual_size.height > height)
            await window.pilot.pause()

        await warn("It is old.", "It is slow.", "It is loud.")
        assert "licence llama3.3" in window.text
        assert f" {name} " in window.text

        pairs.scroll_home(animate=False, immediate=True)
        await warn("It is old.", "It is slow.", "It is loud.", "It is large.")
        assert pairs.scroll_y == 0

        await window.press("up", "down")
        await window.until(lambda: f" {name} " in window.text)


async def test_new_cards_leave_the_choice_of_the_user_alone() -> None:
    async with open_setup() as window:
        await window.press("down", "down")
        window.pairs.state = replace(window.pairs.state, cards=tuple(reversed(CARDS)))
        await window.until(lambda: "\n   llama-70b" in window.text.partition("To download")[2][:80])
        assert window.chosen == "qwen3-32b"


async def test_typing_filters() -> None:
    async with open_setup() as window:
        window.type("32b code")
        await window.until(lambda: "llama-8b" not in window.text)
        assert "coder-32b" in window.text
        assert "qwen3-32b" in window.text
        assert "Another repository" in window.text
        window.type("", "down", "down", "down")
        await window.until(lambda: window.setup.pairs.adds)
        await window.press("backspace")
        await window.until(lambda: window.chosen == "coder-32b")
        await window.press(*["backspace"] * 7)
        await window.shows("llama-8b")
        assert window.chosen == "coder-32b"


async def test_enter_means_what_was_typed_before_it() -> None:
    async with open_setup() as window:
        window.type("demo", "enter")
        await window.until(lambda: window.pairs.names("start"))
        assert window.pairs.names("start") == [["demo"]]


async def test_a_key_that_overtakes_characters_waits_for_them() -> None:
    async with open_setup() as window:
        for character in "demo":
            window.setup.filter_input.post_message(events.Key(character, character))
        window.setup.filter_input.action_tell("enter")
        await window.until(lambda: window.pairs.names("start"))
        assert window.pairs.names("start") == [["demo"]]


async def test_down_means_the_list_as_it_was_typed_down() -> None:
    async with open_setup() as window:
        window.type("llama", "down", "enter")
        await window.shows("Enter again downloads 43.8 GB all the same.")
        assert window.chosen == "llama-70b"


async def test_a_download_shows_its_progress_and_opens_when_there_was_nothing_to_chat_with() -> None:
    async with open_setup() as window:
        await window.press("down", "enter")
        await window.shows("Enter again downloads 20.5 GB, esc does not.")
        assert window.pairs.names("start") == []
        await window.press("enter")
        assert window.pairs.names("start") == [["coder-32b", "agreed"]]
        await window.shows("looking")
        window.pairs.goes("coder-32b", BEGUN)
        await window.shows("12.4 / 19.9 GB  94 MB/s  1 min 22 s")
        assert "0.7 /  0.7 GB  ✓" in window.text
        assert "64%" in window.text
        await window.press("enter")
        await window.shows("ctrl+x stops it")
        assert len(window.pairs.names("start")) == 1
        window.pairs.goes("coder-32b", replace(BEGUN, stage=Stage.TRYING))
        await window.shows("trying")
        window.pairs.goes("coder-32b", replace(BEGUN, stage=Stage.READY))
        await window.until(lambda: window.in_chat)
        await window.shows("Title of coder-32b")
        assert window.engine.loads == 1


async def test_waiting_is_explained() -> None:
    async with open_setup() as window:
        await window.press("down", "enter", "enter")
        stuck = Download("target", GB, 2 * GB, "The hub asks to slow down.", 7)
        window.pairs.goes("coder-32b", Job(Stage.DOWNLOADING, (stuck,)))
        await window.shows("The hub asks to slow down, again in 7 s")


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
        window.pairs.goes("coder-32b", Job(Stage.FAILED, error=OFFLINE))
        await window.shows("huggingface.co cannot be found.")
        assert "This machine seems to be offline." in window.text
        await window.shows("Without the hub: demo, the first line, needs no download")
        window.type("", "up", "enter")
        await window.until(lambda: window.pairs.names("start") == [["coder-32b", "agreed"], ["demo"]])
        window.pairs.goes("demo", Job(Stage.READY))
        await window.until(lambda: window.in_chat)
        assert window.pairs.names("choose") == [["demo"]]
        await window.chat.load()
        await window.chat.send("hello")


async def test_too_big_wants_a_second_enter() -> None:
    async with open_setup() as window:
        window.type("70b", "enter")
        await window.shows("It needs 47.8 GB of memory, 22.8 GB are free. Enter again downloads 43.8 GB all the same.")
        assert window.pairs.names("start") == []
        await window.press("enter")
        await window.until(lambda: window.pairs.names("start") == [["llama-70b", "agreed"]])


async def test_what_is_here_is_on_top_and_opens_without_a_question() -> None:
    async with open_setup(size=(80, 24)) as window:
        assert window.chosen == "demo"
        assert "enter opens it, nothing is downloaded" in window.text
        rows = window.rows
        assert rows.index(" On this machine") < rows.index(" To download, the best for this machine first")
        await window.press("enter")
        assert window.pairs.names("start") == [["demo"]]
        window.type("32b")
        await window.until(lambda: "On this machine" not in window.text)
        assert "To download" in window.text


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
        window.pairs.goes("coder-32b", Job(Stage.ASKING, to_come=20 * GB, free=100 * GB))
        await window.shows("Enter again downloads 20.0 GB; 100.0 GB of disk are free.")
        await window.press("enter")
        assert window.pairs.names("start")[1:] == [["coder-32b", "agreed"]]


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


async def test_a_pair_that_is_set_up_opens_at_once() -> None:
    async with open_setup(FakePairs(replace(CODER, set_up=True, here=True))) as window:
        await window.press("enter")
        await window.until(lambda: window.in_chat)
        await window.until(lambda: window.engine.loads == 1)
        await window.chat.load()
        await window.chat.send("hello")
        assert window.engine.requests[0].drafting == DraftParams()


async def test_the_first_pair_becomes_the_default_and_that_is_said() -> None:
    async with open_setup() as window:
        await window.press("down", "enter", "enter")
        window.pairs.change("coder-32b", is_default=True)
        window.pairs.goes("coder-32b", Job(Stage.READY))
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
        pairs.goes("coder-32b", Job(Stage.READY))
        await window.until(lambda: window.in_chat)
        await window.shows("Tandem still opens with demo; f6, then ctrl+d on coder-32b")


async def test_why_a_pair_is_proposed_is_said_and_a_slow_one_called_so() -> None:
    said = "coder-32b is the largest that should answer as fast as people read, about 11 tokens/s."
    pairs = FakePairs(replace(CODER, why=said), replace(SMALL, slow=True, reason="about 2 tokens/s; 4 GB to spare"))
    async with open_setup(pairs, size=(80, 24)) as window:
        await window.shows(said.split(", about")[0])
        assert any("llama-8b" in row and row.endswith("slow") for row in window.rows)
        await window.press("down")
        await window.shows("slow: about 2 tokens/s")


async def test_a_pair_whose_files_are_gone_says_so() -> None:
    async with open_setup(FakePairs(replace(CODER, set_up=True, here=True))) as window:
        window.pairs.refuses = PairError("The files are gone.", "Bring them back.")
        await window.press("enter")
        await window.shows("The files are gone. Bring them back.")


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


async def test_a_click_chooses_and_a_second_one_takes() -> None:
    async with open_setup() as window:
        row = next(i for i, row in enumerate(window.rows) if row[3:].startswith("demo"))
        await window.pilot.click(offset=(10, row))
        await window.until(lambda: window.chosen == "demo")
        row = next(i for i, row in enumerate(window.rows) if row[3:].startswith("demo"))
        await window.pilot.click(offset=(10, row))
        await window.until(lambda: window.pairs.names("start") == [["demo"]])


async def test_a_broken_catalogue_is_named_beside_the_pairs() -> None:
    async with open_setup(FakePairs(DEMO)) as window:
        window.pairs.state = replace(window.pairs.state, trouble=AppError("models.toml cannot be read.", "Mend it."))
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


# Any repository


async def test_any_repository_is_looked_at_before_it_is_brought() -> None:
    async with open_setup() as window:
        await window.press("ctrl+a")
        await window.until(lambda: window.is_adding)
        window.type("owner/big:Q4_K_M", "enter")
        await window.shows("owner/big:Q4_K_M")
        window.type("owner/small", "enter")
        await window.until(lambda: window.pairs.names("ask") == [["owner/big:Q4_K_M", "owner/small"]])
        await window.shows("nothing is downloaded yet")
        window.pairs.answers(Inquiry(report=REPORT))
        await window.shows("They can ride together; enter brings them.")
        for text in (
            "Big One Q4_K_M",
            "20.0 GB",
            " GB  here",
            "tight: only 0.4 GB",
            "apache-2.0",
            "The draft is old.",
        ):
            assert text in window.text
        assert "accept its terms" in window.text
        assert "20.0 GB to download, 100.0 GB of disk free" in window.text
        assert window.pairs.names("add") == []
        await window.press("enter")
        await window.until(lambda: not window.is_adding)
        assert window.pairs.names("add") == [[]]
        await window.until(lambda: window.chosen == "added")
        await window.shows("checking")


async def test_two_that_cannot_ride_together_are_not_brought() -> None:
    async with open_setup() as window:
        await window.press("ctrl+a")
        window.type("a/b")
        await window.shows("a/b")
        await window.press("tab")
        window.type("c/d", "enter")
        await window.until(lambda: window.pairs.names("ask"))
        window.pairs.answers(Inquiry(report=replace(REPORT, problems=('Token 5 is "x" in one and "y" in the other.',))))
        await window.shows('Token 5 is "x" in one')
        await window.press("enter")
        await window.shows("name another draft")
        assert window.pairs.names("add") == []
        window.type("e")
        await window.until(lambda: 'Token 5 is "x"' not in window.text)
        assert window.pairs.state.inquiry is None
        await window.press("enter")
        assert window.pairs.names("ask")[-1] == ["a/b", "c/de"]


async def test_a_repository_that_cannot_be_had_says_why_and_can_be_asked_again() -> None:
    async with open_setup() as window:
        await window.press("ctrl+a")
        await window.press("enter")
        await window.shows("Name the target first.")
        window.type("a/b", "enter", "enter")
        await window.until(lambda: window.pairs.names("ask") == [["a/b", ""]])
        window.pairs.answers(Inquiry(error=HubError("a/b wants its terms accepted.", "Accept them on its page.")))
        await window.shows("a/b wants its terms accepted.")
        assert "Accept them on its page." in window.text
        await window.press("enter")
        await window.until(lambda: len(window.pairs.names("ask")) == 2)
        await window.press("escape")
        await window.until(lambda: not window.is_adding)
        assert window.pairs.calls[-1] == ("drop",)


# Beside the chat


async def test_the_chat_goes_on_while_a_pair_is_downloaded() -> None:
    async with open_setup(first_run=False) as window:
        await window.press("down", "enter", "enter")
        window.pairs.goes("coder-32b", BEGUN)
        await window.shows("MB/s")
        await window.press("escape")
        await window.until(lambda: window.in_chat)
        await window.shows("coder-32b  target 62%  draft 100%  94 MB/s  1 min 22 s")
        await window.chat.send("hello")
        window.engine.says("Good morning.")
        window.engine.finishes()
        await window.shows("Good morning.")
        window.pairs.goes("coder-32b", replace(BEGUN, stage=Stage.READY))
        await window.shows("coder-32b is set up; f6 opens it")
        assert window.engine.loads == 1
        await window.press("f6")
        await window.until(lambda: not window.in_chat)
        await window.press("escape")
        await window.until(lambda: window.in_chat)
        assert "f6 opens it" not in window.text


async def test_a_download_that_is_done_does_not_push_aside_the_pair_that_is_loaded() -> None:
    async with open_setup(first_run=False) as window:
        await window.press("down", "enter", "enter")
        window.pairs.goes("coder-32b", replace(BEGUN, stage=Stage.READY))
        await window.shows("Set up; enter opens it.")
        assert window.engine.loads == 1
        await window.press("enter")
        await window.until(lambda: window.engine.loads == 2)


async def test_a_download_that_fails_behind_the_chat_says_so() -> None:
    async with open_setup(first_run=False) as window:
        await window.press("down", "enter", "enter", "escape")
        await window.until(lambda: window.in_chat)
        window.pairs.goes("coder-32b", Job(Stage.FAILED, error=OFFLINE))
        await window.shows("coder-32b: huggingface.co cannot be found. f6 tells more")


async def test_another_pair_stops_the_answer_and_takes_the_conversation_over() -> None:
    async with open_setup(FakePairs(replace(CODER, set_up=True)), first_run=False) as window:
        await window.press("escape")
        await window.until(lambda: window.in_chat)
        await window.chat.send("story")
        window.engine.says("Once upon")
        await window.shows("Once upon")
        await window.press("f6")
        await window.until(lambda: not window.in_chat)
        await window.press("enter")
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
        assert window.engine.requests[1].drafting == DraftParams()


async def test_a_new_conversation_while_the_answer_ends_still_loads_the_pair() -> None:
    async with open_setup(FakePairs(replace(CODER, set_up=True)), first_run=False) as window:
        await window.press("escape")
        await window.until(lambda: window.in_chat)
        await window.chat.send("story")
        await window.press("f6")
        await window.until(lambda: not window.in_chat)
        await window.press("enter")
        await window.until(lambda: window.in_chat)
        await window.press("ctrl+n")
        await window.until(lambda: window.engine.loads == 2)


async def test_a_pair_that_does_not_load_says_so_and_keeps_the_conversation() -> None:
    async with open_setup(FakePairs(replace(CODER, set_up=True)), first_run=False) as window:
        await window.press("escape")
        await window.until(lambda: window.in_chat)
        await window.chat.send("one")
        window.engine.says("first")
        window.engine.finishes()
        await window.chat.ready()
        await window.press("f6")
        await window.until(lambda: not window.in_chat)
        await window.press("enter")
        await window.until(lambda: window.engine.loads == 2)
        window.engine.fails_to_load(AppError("There is not enough memory.", "Choose a smaller pair."))
        await window.shows("There is not enough memory.")
        assert "first" in window.text
        await window.chat.type("two")
        await window.press("enter")
        await window.shows("No model is loaded; f6 chooses one.")
        assert window.chat.prompt == "two"


async def test_what_is_loaded_last_counts() -> None:
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


async def test_the_command_palette_leads_to_the_pairs() -> None:
    async with open_setup(first_run=False) as window:
        await window.press("escape", "ctrl+p")
        await window.until(lambda: not window.in_chat)
        window.type("models")
        await window.shows("Choose, download or add a pair of models")
        await window.press("enter")
        await window.until(lambda: isinstance(window.app.screen, SetupScreen))


async def test_without_pairs_there_is_no_key_for_them() -> None:
    async with open_chat() as chat:
        assert "models" not in chat.rows[-1]
        await chat.pilot.press("f6")
        await chat.pilot.pause()
        assert chat.pilot.app.screen is chat.screen


async def test_quitting_stops_the_downloads() -> None:
    async with open_setup() as window:
        await window.press("enter")
        await window.press("ctrl+c")
        await window.shows("ctrl+c again quits")
        await window.press("ctrl+q")
        assert not window.app.is_running
        assert ("close",) in window.pairs.calls


@pytest.mark.parametrize("markup", ["[red]not red[/red]", "[@click=app.quit]x[/]", "[/nonsense]"])
async def test_texts_from_outside_are_only_text(markup: str) -> None:
    evil = f"{markup}\x1b]0;owned\x07\u202e"
    card = replace(
        CODER, name="evil", title=evil, target=evil, reason=evil, good_at=evil, licence=evil, tested_with=evil
    )
    async with open_setup(FakePairs(card, machine=evil), first_run=False, size=(200, 60)) as window:
        assert window.text.count(markup) >= 6
        await window.press("enter", "enter")
        job = Job(Stage.FAILED, warnings=(evil,), error=AppError(evil, evil))
        window.pairs.goes("evil", job)
        await window.until(lambda: window.text.count(markup) >= 9)
        await window.press("ctrl+a")
        window.type("a/b", "enter", "enter")
        await window.until(lambda: window.pairs.names("ask"))
        model = ModelReport("target", evil, evil, GB)
        window.pairs.answers(
            Inquiry(
                report=replace(REPORT, models=(model,), problems=(evil,), warnings=(evil,), reason=evil, licence=evil)
            )
        )
        await window.until(lambda: window.text.count(markup) >= 6)
        assert "\x1b" not in window.text
        assert "\u202e" not in window.text
        await window.press("escape", "escape")
        await window.until(lambda: window.in_chat)


async def test_an_error_from_outside_is_only_text_in_the_chats_line() -> None:
    async with open_setup(first_run=False) as window:
        await window.press("down", "enter", "enter", "escape")
        await window.until(lambda: window.in_chat)
        window.pairs.goes("coder-32b", Job(Stage.FAILED, error=AppError("[b]bad\x1b[2J")))
        await window.shows("coder-32b: [b]bad[2J")


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (78, "coder-32b  target 62%  draft 100%  94 MB/s  1 min 22 s"),
        (50, "coder-32b  target 62%  draft 100%  94 MB/s"),
        (30, "coder-32b  target 62%"),
        (6, "coder…"),
    ],
)
def test_a_download_behind_the_chat_is_told_as_far_as_there_is_room(width: int, line: str) -> None:
    assert line_text("coder-32b", BEGUN, width).plain == line


def test_a_failure_behind_the_chat_always_says_where_there_is_more() -> None:
    failed = Job(Stage.FAILED, error=AppError("The connection was lost, and lost again."))
    assert line_text("coder-32b", failed, 40).plain == "coder-32b: The connection… f6 tells more"
