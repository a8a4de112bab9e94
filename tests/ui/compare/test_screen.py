"""The compare screen: what it asks of the engine, and what it shows."""

import pytest

from app.compare.difference import Difference
from app.engine.events import PromptProgress
from app.engine.interfaces import Controls
from app.engine.types import DraftParams
from app.ui.compare.screen import CompareScreen
from app.worker.events import Measuring
from tests.fakes import FakeModel, mixing
from tests.pairs import FakePair
from tests.ui.compare.driver import AUTOMATIC, FIXED, FIXED_SETTINGS, PLAIN, SAME, TEXT, made, open_comparison

OTHER = TEXT.replace("pivot", "middle")
TIE = Difference(
    3,
    11,
    12,
    " pivot",
    " middle",
    5,
    (17.25, 17.251),
    (17.252, 17.249),
    0.004,
    near_tie=True,
    why="rounding difference: close",
    p_alone=(0.41242, 0.41201),
    p_batched=(0.4119, 0.4127),
)


@pytest.mark.parametrize("thought", ["I sort.", "I sort.\n", "I sort.\n\n"])
async def test_a_blank_line_separates_reasoning_from_the_answer(thought: str) -> None:
    async with open_comparison() as compare:
        compare.begins(PLAIN)
        for text, thinking in ((thought, True), ("Quick", False), ("sort.", False)):
            compare.writes(text, made(PLAIN, 4).stats, thinking=thinking)
        await compare.chat.shows("Quicksort.")
        rows = [row.strip() for row in compare.chat.rows]
        at = rows.index("I sort.")
        assert rows[at : at + 3] == ["I sort.", "", "Quicksort."]


async def test_both_sides_stream_with_their_own_figures() -> None:
    async with open_comparison() as compare:
        compare.begins(PLAIN, 0)
        compare.writes("Warming", made(PLAIN, 1).stats)
        await compare.chat.shows("warming up, no draft")
        assert "Warming" not in compare.chat.text
        compare.begins(PLAIN)
        compare.writes("Quick", made(PLAIN, 4).stats)
        await compare.chat.shows("50 tok/s")
        assert "run 1 of 1, no draft" in compare.chat.text
        assert "automatic" in compare.chat.text
        compare.ends(made(PLAIN, 4))
        compare.begins(AUTOMATIC)
        compare.writes("Quick", made(AUTOMATIC, 2).stats)
        await compare.chat.shows("100 tok/s    78% accepted")
        titles = [row.split("  ")[0].strip() for row in compare.chat.rows if "draft" in row and "tok/s" in row]
        assert titles == ["Without draft", "With draft, automatic"]


async def test_new_text_is_followed_until_the_reader_scrolls_and_a_difference_is_shown() -> None:
    text = "".join(f"line {number}\n\n" for number in range(40))
    other = text.replace("line 20", "line twenty")
    difference = Difference(20, 1, 2, "20", "twenty", 1, None, None, None, None, "why")
    async with open_comparison(size=(160, 24)) as compare:
        compare.begins(PLAIN)
        compare.writes(text, made(PLAIN, 4).stats)
        await compare.chat.shows("line 39")
        await compare.chat.pilot.press("pageup", "pageup")
        await compare.chat.until(lambda: "line 39" not in compare.chat.text)
        compare.writes("more\n\nlast", made(PLAIN, 4).stats)
        await compare.chat.shows("201 tokens")
        assert "last" not in compare.chat.text

        compare.races([made(PLAIN, 4, text=text), made(AUTOMATIC, 2, text=other)], differences={AUTOMATIC: difference})
        await compare.chat.shows("line twenty")
        assert "line 20" in compare.chat.text
        assert "line 39" not in compare.chat.text


async def test_measuring_and_prompt_progress_are_shown() -> None:
    async with open_comparison() as compare:
        compare.begins(AUTOMATIC, 0)
        compare.engine.emit(Measuring(compare.engine.job_number, 0.5))
        await compare.chat.shows("measuring once what drafts cost here: 50%")
        compare.engine.emit(PromptProgress(compare.engine.job_number, True, 10, 40))
        await compare.chat.shows("warming up, automatic: Draft reading prompt: 10 of 40 tokens")


async def test_the_first_difference_is_explained_and_marked() -> None:
    async with open_comparison() as compare:
        compare.races([made(PLAIN, 4), made(AUTOMATIC, 2, text=OTHER)], differences={AUTOMATIC: TIE})
        await compare.chat.shows("rounding difference: close")
        told = " ".join(compare.chat.text.split())
        assert 'differs at token 4 (rounding) "·pivot" without drafts (41.24% against 41.20%)' in told
        assert '"·middle" with (41.27% against 41.19%)' in told
        screen = compare.chat.pilot.app.screen
        assert isinstance(screen, CompareScreen)
        marked = {}
        for name, pane in screen.panes.items():
            rows = [row.content for row in pane.markdown[False].rows]
            marked[name] = [r.plain[s.start : s.end] for r in rows for s in r.spans if "underline" in str(s.style)]
        assert marked == {PLAIN: ["pivot"], AUTOMATIC: ["middle"]}


async def test_a_text_is_rendered_and_says_where_it_stops() -> None:
    text = "## Sorting\n\nUse **sorted**:\n\n```py\nsorted(items)\n```\n"
    async with open_comparison(size=(120, 40)) as compare:
        compare.begins(PLAIN)
        compare.writes("Let me *think*.", made(PLAIN, 4).stats, thinking=True)
        compare.writes(text, made(PLAIN, 4).stats)
        await compare.chat.shows("Use sorted:")
        assert "Let me think." in compare.chat.text
        assert "**" not in compare.chat.text
        assert "```" not in compare.chat.text
        assert "cut at" not in compare.chat.text
        compare.ends(made(PLAIN, 4, text=text))
        await compare.chat.shows("cut at 201 tokens")


async def test_a_difference_behind_markup_and_reasoning_is_marked() -> None:
    async with open_comparison() as compare:
        for side, last in ((PLAIN, "one"), (AUTOMATIC, "two")):
            compare.begins(side)
            compare.writes("Thoughts.", made(side, 4).stats, thinking=True)
            compare.writes(f"It is **one** of `one` and {last}", made(side, 4).stats)
            compare.ends(made(side, 4))
        compare.finishes([[made(PLAIN, 4), made(AUTOMATIC, 2)]], {AUTOMATIC: TIE})
        await compare.chat.shows("rounding difference: close")
        screen = compare.chat.pilot.app.screen
        assert isinstance(screen, CompareScreen)
        for pane, last in zip(screen.panes.values(), ("one", "two"), strict=True):
            (row,) = pane.markdown[False].rows
            ends = [span.end for span in row.content.spans if "underline" in str(span.style)]
            assert (ends, row.content.plain[-3:]) == ([len(row.content.plain)], last)


async def test_fixed_settings_add_a_third_side() -> None:
    async with open_comparison(FIXED_SETTINGS, size=(160, 40)) as compare:
        assert [side.name for side in compare.job.sides] == [PLAIN, FIXED, AUTOMATIC]
        assert compare.job.sides[1].drafting == DraftParams()
        await compare.chat.shows("With draft, fixed 7/0.6")
        runs = [made(PLAIN, 4), made(FIXED, 8), made(AUTOMATIC, 2)]
        compare.races(runs, differences={FIXED: None, AUTOMATIC: None})
        await compare.chat.shows("fixed 7/0.6: slower, 0.5× the speed  (1 run")
        await compare.chat.shows("automatic: 2.0× faster  (1 run")


async def test_the_real_job_on_fakes() -> None:
    async with open_comparison(prompt="hello") as compare:
        pair = FakePair(FakeModel(mixing(4, n_vocab=27)), FakeModel(mixing(4, n_vocab=27)))
        for event in compare.job.run(pair, compare.engine.job_number, Controls()):
            compare.engine.emit(event)
        await compare.chat.shows("identical output, 256 tokens")


async def test_hostile_text_stays_text() -> None:
    evil = "[bold]x[/] \x1b[31mred\u202e"
    async with open_comparison(prompt="[red]hi[/]") as compare:
        compare.races([made(PLAIN, 4, text=evil), made(AUTOMATIC, 2, text=evil)], differences=SAME)
        await compare.chat.shows("[bold]x[/] [31mred")
        assert "[red]hi[/]" in compare.chat.text


@pytest.mark.parametrize(("width", "beside"), [(99, False), (100, True)])
async def test_a_narrow_window_shows_one_text_above_a_table_of_sides(width: int, beside: bool) -> None:
    async with open_comparison(size=(width, 30)) as compare:
        screen = compare.chat.pilot.app.screen
        assert isinstance(screen, CompareScreen)
        compare.races([made(PLAIN, 4), made(AUTOMATIC, 2, text="Another text.")], differences=SAME)
        await compare.chat.shows("2.0× faster")
        await compare.chat.shows("Another text.")
        assert (TEXT[:20] in compare.chat.text) is beside
        await compare.chat.press("tab", shows=TEXT[:20])
        assert ("Another text." in compare.chat.text) is beside
        assert compare.chat.text.count("Without draft") == compare.chat.text.count("With draft, automatic") == 1
