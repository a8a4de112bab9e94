"""What is drawn when an answer grows: the lines that look different, and everything else not once more."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from textual.app import App, ComposeResult
from textual.content import Content
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from app.ui.reading import code
from app.ui.reading.document import MarkdownDocument, preload
from app.ui.reading.parser import parser
from app.ui.reading.rows import Row
from app.ui.widgets.rows_view import Flow, LinesView, RowsView
from tests.ui.chat_driver import open_chat


def plain(*texts: str) -> list[Row]:
    return [Row(Content(text)) for text in texts]


def read(source: str) -> list[Row]:
    document = MarkdownDocument()
    document.append(source)
    return [*document.frozen, *document.open]


def test_rows_that_look_as_before_stay() -> None:
    flow = Flow()
    flow.replace(0, plain("a", "b", "c"))
    first, second, third = flow.rows
    assert flow.replace(1, plain("b", "C", "d")) == 2
    assert flow.rows[:2] == [first, second]
    assert flow.rows[0] is first
    assert flow.rows[1] is second
    assert flow.rows[2] is not third
    assert [row.content.plain for row in flow.rows] == ["a", "b", "C", "d"]
    assert flow.replace(0, plain("a")) == 1
    assert len(flow.rows) == 1


def test_another_style_is_another_look() -> None:
    bold = Row(Content.styled("a", "bold"))
    assert not bold.looks_like(Row(Content("a")))
    assert not Row(Content("a"), first=Content("- ")).looks_like(Row(Content("a")))
    assert not Row(Content("a"), source="b").looks_like(Row(Content("a")))
    assert bold.looks_like(Row(Content.styled("a", "bold")))


def test_a_table_whose_column_became_wider_looks_different_from_its_first_row_on() -> None:
    flow = Flow()
    narrow = "| a | b |\n|---|---|\n| 1 | 2 |\n"
    document = MarkdownDocument()
    document.append(narrow)
    flow.replace(0, document.open)
    before = [[part.plain for _, part in line] for row in flow.rows for line in row.lines(40)]
    document.append("| wide enough | 2 |\n")
    assert flow.replace(0, document.open) == 0
    assert [[part.plain for _, part in line] for row in flow.rows[:2] for line in row.lines(40)] != before
    assert [row.text for row in document.open] == [row.text for row in read(narrow + "| wide enough | 2 |\n")]


class OneView(App[None]):
    def compose(self) -> ComposeResult:
        yield RowsView()


@pytest.fixture
def lines_drawn(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    found: list[int] = []
    draw = LinesView.draw

    def noted(self: LinesView, number: int, line: Sequence[object]) -> Strip:
        found.append(number)
        return draw(self, number, line)  # type: ignore[arg-type]

    monkeypatch.setattr(LinesView, "draw", noted)
    return found


async def test_only_new_lines_are_drawn_when_there_are_more(lines_drawn: list[int]) -> None:
    app = OneView()
    async with app.run_test(size=(40, 20)) as pilot:
        view = app.query_one(RowsView)
        view.put(0, plain("a", "b", "c"))
        await pilot.pause()
        assert set(lines_drawn) == {0, 1, 2}
        lines_drawn.clear()
        view.put(2, plain("c", "d"))
        await pilot.pause()
        assert set(lines_drawn) == {3}
        lines_drawn.clear()
        view.put(3, plain("D"))
        await pilot.pause()
        assert set(lines_drawn) == {3}
        assert [strip.text.rstrip() for strip in view.render_lines(Region(0, 0, 40, 4))] == ["a", "b", "c", "D"]


async def test_of_a_paragraph_that_grows_the_last_lines_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    render_line = RowsView.render_line

    def noted(self: RowsView, y: int) -> Strip:
        asked.append(y)
        return render_line(self, y)

    monkeypatch.setattr(RowsView, "render_line", noted)
    wrapped: list[int] = []
    wrap = Row._wrapped

    def counted(self: Row, width: int) -> list[Content]:
        wrapped.append(width)
        return wrap(self, width)

    monkeypatch.setattr(Row, "_wrapped", counted)
    app = OneView()
    async with app.run_test(size=(40, 20)) as pilot:
        view, text = app.query_one(RowsView), "some words " * 20
        view.put(0, [Row(Content(text))])
        await pilot.pause()
        asked.clear()
        wrapped.clear()
        view.put(0, [Row(Content(text + "and more words " * 3).stylize("bold", len(text)))])
        await pilot.pause()
        first = len(text) // 40
        assert set(asked) == set(range(first, max(asked) + 1))
        assert len(wrapped) == 1
        seen = " ".join(strip.text.strip() for strip in view.render_lines(Region(0, 0, 40, 8)))
        assert seen.split() == (text + "and more words " * 3).split()
        asked.clear()
        view.put(0, [Row(Content("other " + text))])
        await pilot.pause()
        assert 0 in asked


async def test_a_line_looks_as_if_textual_had_drawn_it() -> None:
    app = OneView()
    async with app.run_test(size=(40, 20)) as pilot:
        view = app.query_one(RowsView)
        view.styles.background = "red 20%"
        view.put(0, [*read("# Some *words*\n\n- `code`\n\n```python\nx = 1\n```\n"), *plain("日本語 " * 12)])
        await pilot.pause()
        for crop in (view.size.region, Region(3, 1, 20, 4)):
            assert view._bare_lines(crop) == Widget.render_lines(view, crop)


async def test_another_theme_another_width_and_a_selection_draw_everything_anew(lines_drawn: list[int]) -> None:
    app = OneView()
    async with app.run_test(size=(40, 20)) as pilot:
        view = app.query_one(RowsView)
        view.put(0, plain("a", "b"))
        await pilot.pause()
        lines_drawn.clear()
        app.theme = "textual-light"
        await pilot.pause()
        assert set(lines_drawn) == {0, 1}
        lines_drawn.clear()
        await pilot.resize_terminal(30, 20)
        await pilot.pause()
        assert set(lines_drawn) == {0, 1}
        lines_drawn.clear()
        view.text_select_all()
        await pilot.pause()
        assert set(lines_drawn) == {0, 1}


async def test_an_answer_that_grows_is_laid_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_chat(size=(120, 40)) as chat:
        await chat.send("go")
        chat.engine.says("".join(f"- line {n}\n" for n in range(80)))
        await chat.shows("line 79")
        await chat.pilot.pause()
        asked: list[str] = []
        refresh = Widget.refresh

        def noted(self: Widget, *regions: Region, layout: bool = False, **more: bool) -> Widget:
            if layout:
                asked.append(type(self).__name__)
            return refresh(self, *regions, layout=layout, **more)

        monkeypatch.setattr(Widget, "refresh", noted)
        chat.engine.says("- line 80\n- line 81\n")
        await chat.shows("line 81")
        assert asked == ["ModelMarkdown"]


async def test_the_end_stays_in_sight_in_a_lower_window() -> None:
    async with open_chat(size=(100, 40)) as chat:
        await chat.send("go")
        chat.engine.says("".join(f"- line {n}\n" for n in range(80)))
        await chat.shows("line 79")
        for rows in (20, 32, 14):
            await chat.pilot.resize_terminal(100, rows)
            await chat.shows("line 79")


def test_the_first_code_of_an_answer_finds_everything_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    parser.cache_clear()
    code._lexer.cache_clear()
    preload()
    assert parser.cache_info().currsize == 1
    monkeypatch.setattr(code, "get_lexer_by_name", lambda name, **options: pytest.fail(f"{name} is loaded again"))
    assert read("```python\ndef f(): pass\n```\n")[0].content.spans


def test_an_unknown_language_is_looked_for_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    code._lexer.cache_clear()
    monkeypatch.setattr("pygments.lexers.find_plugin_lexers", lambda: pytest.fail("installed packages are searched"))
    assert [row.text for row in code.code_rows(["a = 1"], "no-such-language")] == ["a = 1"]
    assert code.code_rows(["a = 'b'"], "Python")[0].content.spans
