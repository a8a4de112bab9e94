"""Rows of text: broken into lines, and only what changes is drawn."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.app import App, ComposeResult
from textual.content import Content
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from app.ui.reading.document import MarkdownDocument
from app.ui.reading.rows import Line, Row, wrapped
from app.ui.widgets.rows_view import RowsView
from tests.ui.driver import open_chat


def plain(*texts: str) -> list[Row]:
    return [Row(Content(text)) for text in texts]


def test_another_style_is_another_look() -> None:
    bold = Row(Content.styled("a", "bold"))
    assert not bold.looks_like(Row(Content("a")))
    assert not Row(Content("a"), first=Content("- ")).looks_like(Row(Content("a")))
    assert not Row(Content("a"), source="b").looks_like(Row(Content("a")))
    assert bold.looks_like(Row(Content.styled("a", "bold")))


def test_a_table_whose_column_became_wider_looks_different_from_its_first_row_on() -> None:
    document = MarkdownDocument()
    document.append("| a | b |\n|---|---|\n| 1 | 2 |\n")
    before = document.open
    document.append("| wide enough | 2 |\n")
    assert not any(old.looks_like(new) for old, new in zip(before, document.open, strict=False))


class OneView(App[None]):
    def compose(self) -> ComposeResult:
        yield RowsView()


@pytest.fixture
def rows_drawn(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    lines = Row.lines

    def noted(self: Row, width: int) -> list[Line]:
        found.append(self.content.plain)
        return list(lines(self, width))

    monkeypatch.setattr(Row, "lines", noted)
    return found


def seen(view: RowsView) -> list[str]:
    return [view.render_line(y).text.rstrip() for y in range(view.size.height)]


async def test_only_new_rows_are_drawn(rows_drawn: list[str]) -> None:
    app = OneView()
    async with app.run_test(size=(40, 20)) as pilot:
        view = app.query_one(RowsView)
        view.put(0, plain("a", "b", "c"))
        await pilot.pause()
        for start, texts, new in ((2, ["c", "d"], ["d"]), (3, ["D"], ["D"])):
            rows_drawn.clear()
            view.put(start, plain(*texts))
            await pilot.pause()
            assert rows_drawn == new
        assert seen(view)[:4] == ["a", "b", "c", "D"]


async def test_the_unchanged_lines_of_a_growing_paragraph_are_not_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    dirty: list[Region] = []
    refresh = Widget.refresh

    def noted(self: Widget, *regions: Region, layout: bool = False, **more: bool) -> Widget:
        dirty.extend(regions)
        return refresh(self, *regions, layout=layout, **more)

    monkeypatch.setattr(Widget, "refresh", noted)
    app = OneView()
    async with app.run_test(size=(40, 20)) as pilot:
        view, text = app.query_one(RowsView), "some words " * 20
        view.put(0, [Row(Content(text))])
        await pilot.pause()
        dirty.clear()
        longer = text + "and more words " * 3
        view.put(0, [Row(Content(longer).stylize("bold", len(text)))])
        assert [region.y for region in dirty] == [len(text) // 40]
        await pilot.pause()
        assert " ".join(seen(view)).split() == longer.split()


async def test_a_row_that_is_exchanged_draws_no_other(rows_drawn: list[str]) -> None:
    app = OneView()
    async with app.run_test(size=(40, 20)) as pilot:
        view = app.query_one(RowsView)
        view.exchange(plain("a", "b", "c"))
        await pilot.pause()
        rows_drawn.clear()
        view.exchange(plain("a", "other", "c"))
        await pilot.pause()
        assert seen(view)[:3] == ["a", "other", "c"]
        assert set(rows_drawn) == {"other"}


async def test_lines_of_a_growing_paragraph_stay_until_the_style_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    app, drawn = OneView(), list[str]()
    paint = RowsView._paint

    def noted(self: RowsView, number: int, line: Line, width: int) -> Strip:
        drawn.append("".join(part.plain for _, part in line))
        return paint(self, number, line, width)

    monkeypatch.setattr(RowsView, "_paint", noted)
    async with app.run_test(size=(10, 20)) as pilot:
        view = app.query_one(RowsView)
        view.put(0, plain("some words of a"))
        await pilot.pause()
        drawn.clear()
        view.put(0, plain("some words of an answer"))
        await pilot.pause()
        assert drawn == ["of an", "answer"]
        drawn.clear()
        app.theme = "textual-light"
        await pilot.pause()
        assert drawn == ["some words", "of an", "answer"]


async def test_a_line_looks_as_if_textual_had_drawn_it() -> None:
    app = OneView()
    async with app.run_test(size=(40, 20)) as pilot:
        view, document = app.query_one(RowsView), MarkdownDocument()
        view.styles.background = "red 20%"
        document.append("# Some *words*\n\n- `code`\n\n```python\nx = 1\n```\n" + "日本語 " * 12)
        view.put(0, [*document.frozen, *document.open])
        await pilot.pause()
        for crop in (view.size.region, Region(3, 1, 20, 4)):
            shown = view.render_lines(crop)
            view.refresh()
            assert shown == Widget.render_lines(view, crop)


async def test_another_theme_another_width_and_a_selection_draw_everything(rows_drawn: list[str]) -> None:
    app = OneView()
    async with app.run_test(size=(40, 20)) as pilot:
        view = app.query_one(RowsView)
        view.put(0, plain("a", "b"))
        await pilot.pause()
        rows_drawn.clear()
        app.theme = "textual-light"
        await pilot.pause()
        assert set(rows_drawn) == {"a", "b"}
        rows_drawn.clear()
        await pilot.resize_terminal(30, 20)
        await pilot.pause()
        assert set(rows_drawn) == {"a", "b"}
        rows_drawn.clear()
        view.text_select_all()
        await pilot.pause()
        assert set(rows_drawn) == {"a", "b"}


def layouts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the widgets that ask for a layout from now on."""
    asked: list[str] = []
    refresh = Widget.refresh

    def noted(self: Widget, *regions: Region, layout: bool = False, **more: bool) -> Widget:
        if layout:
            asked.append(type(self).__name__)
        return refresh(self, *regions, layout=layout, **more)

    monkeypatch.setattr(Widget, "refresh", noted)
    return asked


async def test_an_answer_grows_without_a_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_chat(size=(120, 40)) as chat:
        await chat.send("go")
        chat.engine.says("".join(f"- line {n}\n" for n in range(80)))
        await chat.shows("line 79")
        await chat.pilot.pause()
        asked = layouts(monkeypatch)
        chat.engine.says("- line 80\n- line 81\n")
        await chat.shows("line 81")
        assert asked == []


async def test_reasoning_is_counted_without_a_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_chat(size=(120, 40)) as chat:
        await chat.send("go")
        chat.engine.says("one two", thinking=True)
        await chat.shows("2 words")
        await chat.pilot.pause()
        asked = layouts(monkeypatch)
        chat.engine.says(" three", thinking=True)
        await chat.shows("3 words")
        assert asked == []


async def test_the_end_stays_visible_in_a_lower_window() -> None:
    async with open_chat(size=(100, 40)) as chat:
        await chat.send("go")
        chat.engine.says("".join(f"- line {n}\n" for n in range(80)))
        await chat.shows("line 79")
        for rows in (20, 32, 14):
            await chat.pilot.resize_terminal(100, rows)
            await chat.shows("line 79")


def lines(text: str, width: int) -> list[str]:
    return [line.plain for line in wrapped(Content(text), width)]


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("no word is too long", 10, ["no word is", "too long"]),
        ("a " + "x" * 12, 8, ["a", "xxxxxxxx", "xxxx"]),
        ("全角文字は二つ分の幅。", 10, ["全角文字は", "二つ分の", "幅。"]),
        ("使用 Python「三」编写。", 12, ["使用 Python", "「三」编写。"]),
        ("使用 API。", 8, ["使用", "API。"]),
        ("请看「LLM」一文", 8, ["请看", "「LLM」", "一文"]),
        ("日期2024-11-22起", 11, ["日期", "2024-11-22", "起"]),
        ("", 5, [""]),
    ],
)
def test_lines_are_broken_where_a_reader_would_break_them(text: str, width: int, shown: list[str]) -> None:
    assert lines(text, width) == shown


@given(st.text("ab /_-.日〰。「\u0301\U0001f600", max_size=60), st.integers(min_value=2, max_value=20))
def test_nothing_is_lost_and_nothing_is_wider_than_its_line(text: str, width: int) -> None:
    found = wrapped(Content(text), width)
    assert "".join("".join(line.plain.split()) for line in found) == "".join(text.split())
    assert all(line.cell_length <= width for line in found)
