"""What is said in the room there is: nothing cut that could be left out, no mark without what it stands for."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from textual.content import Content
from textual.selection import SELECT_ALL

from app.conversations.titles import in_brief
from app.core.errors import AppError
from app.ui.models.add_pair_screen import report_lines
from app.ui.models.state import ModelReport, PairReport
from app.ui.text import cut, side_by_side
from app.ui.widgets.hint import Hint
from app.ui.widgets.rows_view import RowsView
from tests.ui.chat_driver import open_chat
from tests.ui.compare.driver import AUTOMATIC, PLAIN, made, open_comparison
from tests.ui.models.driver import open_setup
from tests.ui.models.fake_pairs import DEMO, FakePairs
from tests.ui.settings.driver import open_panel


@pytest.mark.parametrize(
    ("width", "lines"),
    [
        (30, ["one · two · three"]),
        (12, ["one · two", "three"]),
        (4, ["one", "two", "three"]),
        (0, ["one", "two", "three"]),
    ],
)
def test_nothing_stands_between_two_parts_at_the_end_of_a_line(width: int, lines: list[str]) -> None:
    assert side_by_side(["one", "two", "three"], width, " · ").split("\n") == lines


def test_wide_characters_count_as_what_they_take() -> None:
    assert side_by_side(["東京", "京都"], 10, " · ") == "東京\n京都"
    assert side_by_side(["東京", "京都"], 11, " · ") == "東京 · 京都"


@pytest.mark.parametrize(
    ("room", "brief"),
    [
        (60, "Who drafts: the model, or both; auto decides"),
        (40, "Who drafts: the model, or both"),
        (20, "Who drafts"),
        (5, "Who drafts: the model, or both; auto decides"),
    ],
)
def test_a_text_loses_whole_clauses_before_it_is_cut(room: int, brief: str) -> None:
    assert in_brief("Who drafts: the model, or both; auto decides", room) == brief


def test_of_two_models_the_sizes_stand_below_each_other_whatever_they_are_called() -> None:
    models = (
        ModelReport("target", "とても大きな日本語のモデルとその長い名前", "Q4_K_M", 19_851_000_000),
        ModelReport("draft", "Small", "Q8_0", 675_710_848, here=True),
    )
    big, small = list(report_lines(PairReport(models), 40))[:2]
    assert big.cell_length <= 40
    assert big.cell_length + len("  here") == small.cell_length
    assert big.plain.endswith("19.9 GB")


async def test_a_pair_with_a_wide_name_is_named_whole() -> None:
    async with open_setup(FakePairs(replace(DEMO, name="日本語モデル")), size=(80, 24)) as window:
        await window.shows("日本語モデル  SmolLM2-135M")


async def test_a_notice_keeps_a_row_from_what_is_below_it() -> None:
    async with open_chat() as chat:
        await chat.send("Count.")
        chat.engine.says("one")
        await chat.shows("one")
        for text in ("The first.", "The second."):
            await chat.screen.messages.notice(text)
        await chat.shows("The second.")
        rows = [row.strip() for row in chat.rows]
        at = rows.index("The first.")
        assert rows[at - 2 : at + 4] == ["one", "", "The first.", "", "The second.", ""]


async def test_a_path_is_broken_behind_its_separators_and_copied_whole() -> None:
    path = f"/home/me/{'a_long_folder/' * 8}file.gguf"
    async with open_chat(size=(60, 24)) as chat:
        await chat.screen.messages.notice(f"Kept in {path}.")
        await chat.shows("file.gguf.")
        rows = [row.strip() for row in chat.rows if "folder/" in row]
        assert rows[0].startswith("Kept in /home/me/")
        assert all(row.endswith("/") for row in rows[:-1])
        notice = chat.screen.query_one(".notice")
        assert notice.get_selection(SELECT_ALL) == (f"Kept in {path}.", "\n")
        await chat.screen.messages.fail(AppError(f"{path} is not a file.", f"Look at {path}."))
        await chat.shows("Look at /home/me/")
        chat.screen.hint.say(f"Saved as {path}.")
        await chat.shows("Saved as /home/me/")
        assert all("a_long_folder" in row or "a_long" not in row for row in chat.rows), chat.text


@pytest.mark.parametrize("long", ["", "\nword" * 5000], ids=["short", "long"])
async def test_what_was_asked_is_broken_as_what_is_answered_and_keeps_its_tabs(long: str) -> None:
    async with open_chat(size=(40, 24)) as chat:
        chat.screen.prompt.insert(f"if x:\n\ty = 1\n全角 http://{'example/' * 6}end{long}")
        await chat.pilot.press("enter")
        await chat.until(lambda: chat.engine.requests)
        await chat.pilot.press("ctrl+home")
        await chat.shows("        y = 1")
        assert any(row.strip() == "全角 http://example/example/example/" for row in chat.rows), chat.text
        said = chat.screen.messages.message_views[0].query(RowsView).last()
        copied = said.get_selection(SELECT_ALL)
        assert copied is not None
        assert copied[0].startswith("if x:\n\ty = 1\n")


async def test_what_is_to_be_confirmed_stands_out_until_it_is_settled(tmp_path: Path) -> None:
    async with open_panel(tmp_path / "settings.toml") as panel:
        hint = panel.screen.query_one(Hint)
        quiet = hint.styles.color
        await panel.press("ctrl+l")
        await panel.chat.shows("ctrl+l again resets them")
        assert hint.styles.color != quiet
        await panel.press("ctrl+l")
        await panel.chat.until(lambda: hint.styles.color == quiet)


async def test_the_settings_are_as_wide_whatever_is_wrong_with_the_file(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("[draft]\nn_mux = 3\n")
    async with open_panel(file, size=(80, 24)) as panel:
        await panel.chat.shows("n_mux is no setting")
        assert panel.screen.settings.region.width == 80


async def test_a_new_value_is_seen_where_little_room_is_left_for_it(tmp_path: Path) -> None:
    async with open_panel(tmp_path / "settings.toml", size=(60, 20)) as panel:
        panel.live.loading()
        await panel.find("ctx")
        await panel.press("enter", *"16384", "enter")
        await panel.chat.until(lambda: any("16384" in row and "after reload" in row for row in panel.chat.rows))


async def test_escape_is_called_what_it_does_in_a_comparison() -> None:
    async with open_comparison() as compare:
        await compare.chat.until(lambda: compare.chat.rows[-1].strip().startswith("esc stop"))
        compare.races([made(PLAIN, 5.9), made(AUTOMATIC, 1.9)], differences={AUTOMATIC: None})
        await compare.chat.until(lambda: compare.chat.rows[-1].strip().startswith("esc back"))


async def test_while_the_models_are_loaded_nothing_is_said_of_drafting() -> None:
    async with open_chat(loaded=False, size=(120, 30)) as chat:
        chat.engine.load_progress("target", 0.45)
        await chat.shows("loading models 45%")
        assert not any(row.endswith("drafting") for row in chat.rows)
        await chat.load()
        await chat.shows("drafting    draft model")


@pytest.mark.parametrize(("room", "said"), [(13, "one two three"), (12, "one two…"), (4, "one…"), (0, "")])
def test_a_line_is_cut_between_words(room: int, said: str) -> None:
    assert cut(Content("one two three"), room).plain == said


def test_what_is_cut_keeps_its_colors() -> None:
    assert cut(Content.assemble(("one ", "bold"), "two three"), 9).spans == Content.styled("one ", "bold").spans
    assert cut(Content.styled("one two three", "bold"), 9).spans == Content.styled("one two…", "bold").spans


_FEW_ROWS = [(40, 12), (60, 16)]


@pytest.mark.parametrize("size", _FEW_ROWS, ids=str)
async def test_a_long_prompt_leaves_the_conversation_some_of_few_rows(size: tuple[int, int]) -> None:
    async with open_chat(size=size) as chat:
        await chat.exchange("Count.", "one")
        for line in range(8):
            await chat.type(f"line {line}")
            await chat.pilot.press("ctrl+j")
        await chat.shows("line 7")
        assert chat.rows[-1].strip().startswith("ctrl+d")
        assert "one" in chat.text
        assert chat.screen.max_scroll_y == 0


@pytest.mark.parametrize("size", _FEW_ROWS, ids=str)
async def test_a_comparison_with_few_rows_shows_a_text_and_all_sides(size: tuple[int, int]) -> None:
    async with open_comparison(size=size) as compare:
        compare.races([made(PLAIN, 5.9, text="Plainly."), made(AUTOMATIC, 1.9, text="Drafted.")])
        await compare.chat.shows("no draft  ")
        assert all(side in compare.chat.text for side in ("Without draft", "With draft", "Drafted."))
        assert compare.chat.rows[-1].strip().startswith("esc back")


async def test_the_prompt_of_a_comparison_goes_before_its_seed() -> None:
    async with open_comparison(size=(60, 24), prompt="Explain quicksort, and why it is fast.") as compare:
        compare.races([made(PLAIN, 5.9), made(AUTOMATIC, 1.9)])
        asked = "Explain quicksort, and why it is fast."
        await compare.chat.until(lambda: any(row.split("  ")[0] == f" {asked}" for row in compare.chat.rows))
        row = next(row for row in compare.chat.rows if asked in row)
        assert row.endswith(" greedy"), "and not how many tokens"


@pytest.mark.parametrize("size", _FEW_ROWS, ids=str)
async def test_what_is_agreed_to_is_seen_in_few_rows(size: tuple[int, int]) -> None:
    async with open_setup(size=size) as window:
        await window.press("enter")
        await window.shows("Download 20.5 GB? Enter yes")
        assert window.rows[-1].strip().startswith("enter choose")


async def test_a_value_goes_before_where_it_comes_from(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("[draft]\nn_mux = 3\nn_max = 12\n")
    async with open_panel(file, size=(40, 12)) as panel:
        await panel.find("n_max")
        await panel.chat.until(lambda: any(row.split()[1:3] == ["n_max", "12"] for row in panel.chat.rows))
        assert panel.chat.rows[-1].strip().startswith("enter change")


async def test_a_search_for_prompts_says_that_it_finds_nothing() -> None:
    async with open_chat() as chat:
        await chat.exchange("Count.", "one")
        await chat.pilot.press("ctrl+s")
        await chat.type("xyz")
        await chat.shows("Nothing found; esc leaves.")
        await chat.pilot.press("escape")
        await chat.until(lambda: "Nothing is found" not in chat.text)


@pytest.mark.parametrize("width", [80, 60])
async def test_help_fits_the_window(width: int) -> None:
    async with open_chat(size=(width, 40)) as chat:
        await chat.type("/help")
        await chat.pilot.press("enter")
        await chat.until(lambda: any(re.search(r"@file +include a file", row) for row in chat.rows))
