"""What is said in the room there is: nothing cut that could be left out, no mark without what it stands for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from app.ui.pairs.inquiry import ModelReport, Report
from app.ui.screens.add_pair import report_lines
from app.ui.settings.line import in_brief
from app.ui.text import side_by_side
from app.ui.widgets.hint import Hint
from tests.ui.chat_driver import open_chat
from tests.ui.compare_driver import AUTOMATIC, PLAIN, made, open_comparison
from tests.ui.fake_pairs import DEMO, FakePairs
from tests.ui.settings_driver import open_panel
from tests.ui.setup_driver import open_setup


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
    big, small = list(report_lines(Report(models), 40))[:2]
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


async def test_what_is_to_be_confirmed_stands_out_until_it_is_settled(tmp_path: Path) -> None:
    async with open_panel(tmp_path / "settings.toml") as panel:
        hint = panel.screen.query_one(Hint)
        quiet = hint.styles.color
        await panel.press("ctrl+l")
        await panel.chat.shows("ctrl+l again sets everything back")
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
        await panel.chat.until(lambda: any("16384" in row and "not loaded yet" in row for row in panel.chat.rows))


async def test_escape_is_called_what_it_does_in_a_comparison() -> None:
    async with open_comparison() as compare:
        await compare.chat.until(lambda: compare.chat.rows[-1].strip().startswith("esc stop"))
        compare.races([made(PLAIN, 5.9), made(AUTOMATIC, 1.9)], differences={AUTOMATIC: None})
        await compare.chat.until(lambda: compare.chat.rows[-1].strip().startswith("esc back"))


async def test_while_the_models_are_loaded_nothing_is_said_of_drafting() -> None:
    async with open_chat(loaded=False, size=(120, 30)) as chat:
        chat.engine.load_progress("target", 0.45)
        await chat.shows("loading target 45%")
        assert not any(row.endswith("drafting") for row in chat.rows)
        await chat.load()
        await chat.shows("drafting  model")
