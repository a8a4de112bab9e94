"""The list of pairs: what it shows, how it is filtered, how one is chosen."""

from __future__ import annotations

from dataclasses import replace

from app.ui.text import MARK
from tests.ui.models.driver import open_setup
from tests.ui.models.fake_pairs import CODER, DEMO, SMALL, FakePairs


async def test_the_open_pair_is_chosen_at_first() -> None:
    default, is_open = (
        replace(DEMO, set_up=True, is_default=True),
        replace(SMALL, here=True, set_up=True, is_open=True),
    )
    async with open_setup(FakePairs(default, is_open, CODER, machine=""), first_run=False) as window:
        assert window.chosen == "llama-8b"
        window.pairs.now = replace(window.pairs.now, machine="An abacus")
        await window.shows("This machine: An abacus")
        assert window.chosen == "llama-8b"
        await window.press("down")
        assert window.chosen == "coder-32b"


async def test_the_first_pair_is_chosen_once_the_machine_is_known_and_stays_so() -> None:
    async with open_setup(FakePairs(CODER, SMALL, machine="")) as window:
        await window.until(lambda: window.setup.pairs.row is None)
        assert "Checking what this machine can run" in window.text
        assert "coder-32b" not in window.text
        window.pairs.now = replace(window.pairs.now, machine="An abacus")
        await window.until(lambda: window.chosen == "coder-32b")
        window.pairs.now = replace(window.pairs.now, cards=(SMALL, CODER))
        await window.until(lambda: 0 <= window.text.find("llama-8b") < window.text.find("coder-32b"))
        assert window.chosen == "coder-32b"


async def test_a_filter_typed_before_the_machine_is_known_applies_later() -> None:
    async with open_setup(FakePairs(machine="")) as window:
        window.type("llama", "enter")
        await window.shows("Still checking this machine")
        assert not window.is_adding
        window.pairs.now = replace(window.pairs.now, machine="An abacus")
        await window.until(lambda: window.chosen == "llama-8b")
        assert "coder-32b" not in window.text


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
