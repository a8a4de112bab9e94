"""Rows of a message: only what changes is drawn."""

from collections.abc import Sequence

import pytest
from textual.app import App, ComposeResult
from textual.content import Content
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from app.ui.reading.document import MarkdownDocument
from app.ui.reading.rows import Line, Row
from app.ui.transcript.foldings import Reasoning
from app.ui.transcript.message import Item
from app.ui.transcript.parts import MessagePart
from app.ui.transcript.scroll import LineScroll
from tests.ui.driver import open_chat


def plain(*texts: str) -> list[Row]:
    return [Row(Content(text)) for text in texts]


class OnePart(App[None]):
    """A view with one part. A line has room for the mark of a message before it, and a cell after it."""

    def compose(self) -> ComposeResult:
        self.view = LineScroll()
        self.part = MessagePart()
        self.item = Item([self.part])
        self.view.items = [self.item]
        yield self.view

    def put(self, start: int, rows: Sequence[Row]) -> None:
        self.part.put(start, rows)
        self.view.update(self.item)

    def on_mount(self) -> None:
        self.view.settle()

    @property
    def shown(self) -> list[str]:
        return [self.view.render_line(y).text.strip() for y in range(self.part.n_lines(self.part.width))]


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the text of every line that is drawn."""
    found: list[str] = []
    paint = LineScroll.paint

    def noted(self: LineScroll, part: MessagePart, number: int, line: Line, width: int) -> Strip:
        found.append("".join(content.plain for _, content in line))
        return paint(self, part, number, line, width)

    monkeypatch.setattr(LineScroll, "paint", noted)
    return found


async def test_only_new_rows_are_drawn(drawn: list[str]) -> None:
    app = OnePart()
    async with app.run_test(size=(40, 20)) as pilot:
        app.put(0, plain("a", "b", "c"))
        await pilot.pause()
        for start, texts, new in ((2, ["c", "d"], ["d"]), (3, ["D"], ["D"])):
            drawn.clear()
            app.put(start, plain(*texts))
            await pilot.pause()
            assert drawn == new
        assert app.shown == ["a", "b", "c", "D"]


async def test_the_unchanged_lines_of_a_growing_paragraph_are_not_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    dirty: list[Region] = []
    refresh = Widget.refresh

    def noted(self: Widget, *regions: Region, layout: bool = False, **more: bool) -> Widget:
        dirty.extend(regions)
        return refresh(self, *regions, layout=layout, **more)

    monkeypatch.setattr(Widget, "refresh", noted)
    app = OnePart()
    async with app.run_test(size=(40, 20)) as pilot:
        text = "some words " * 20
        app.put(0, [Row(Content(text))])
        await pilot.pause()
        dirty.clear()
        last, longer = len(app.shown) - 1, text + "and more words " * 3
        app.put(0, [Row(Content(longer).stylize("bold", len(text)))])
        assert [region.y for region in dirty] == [last]
        await pilot.pause()
        assert " ".join(app.shown).split() == longer.split()


async def test_lines_of_a_growing_paragraph_stay_until_the_style_changes(drawn: list[str]) -> None:
    app = OnePart()
    async with app.run_test(size=(12, 20)) as pilot:
        app.put(0, plain("some words of a"))
        await pilot.pause()
        drawn.clear()
        app.put(0, plain("some words of an answer"))
        await pilot.pause()
        assert drawn == ["of an", "answer"]
        drawn.clear()
        app.theme = "textual-light"
        await pilot.pause()
        assert drawn == ["some words", "of an", "answer"]


async def test_a_line_looks_as_if_textual_had_drawn_it() -> None:
    app = OnePart()
    async with app.run_test(size=(40, 20)) as pilot:
        document = MarkdownDocument()
        app.view.styles.background = "red 20%"
        document.append("# Some *words*\n\n- `code`\n\n```python\nx = 1\n```\n" + "日本語 " * 12)
        app.put(0, [*document.frozen, *document.open])
        await pilot.pause()
        for crop in (app.view.size.region, Region(3, 1, 20, 4)):
            shown = app.view.render_lines(crop)
            app.view.refresh()
            assert shown == Widget.render_lines(app.view, crop)


async def test_another_theme_another_width_and_a_selection_draw_everything(drawn: list[str]) -> None:
    app = OnePart()
    async with app.run_test(size=(40, 20)) as pilot:
        app.put(0, plain("a", "b"))
        await pilot.pause()
        drawn.clear()
        app.theme = "textual-light"
        await pilot.pause()
        assert set(drawn) == {"a", "b"}
        drawn.clear()
        await pilot.resize_terminal(30, 20)
        await pilot.pause()
        assert set(drawn) == {"a", "b"}
        drawn.clear()
        app.view.text_select_all()
        await pilot.pause()
        assert set(drawn) == {"a", "b"}


@pytest.mark.parametrize(
    ("first", "shown", "more", "then", "thinking"),
    [
        ("".join(f"- line {n}\n" for n in range(80)), "line 79", "- line 80\n- line 81\n", "line 81", False),
        ("one two", "2 words", " three", "3 words", True),
    ],
    ids=["answer", "reasoning"],
)
async def test_text_arrives_without_a_layout(
    monkeypatch: pytest.MonkeyPatch, first: str, shown: str, more: str, then: str, thinking: bool
) -> None:
    asked: list[str] = []
    refresh = Widget.refresh

    def noted(self: Widget, *regions: Region, layout: bool = False, **others: bool) -> Widget:
        asked.extend([type(self).__name__] * layout)
        return refresh(self, *regions, layout=layout, **others)

    async with open_chat(size=(120, 40)) as chat:
        await chat.send("go")
        chat.engine.says(first, thinking=thinking)
        await chat.shows(shown)
        await chat.pilot.pause()
        monkeypatch.setattr(Widget, "refresh", noted)
        chat.engine.says(more, thinking=thinking)
        await chat.shows(then)
        assert asked == []


def test_a_word_of_the_reasoning_in_two_pieces_counts_once() -> None:
    reasoning = Reasoning("think")
    reasoning.add("ing hard")
    assert [row.content.plain for row in reasoning.parts[0].rows] == ["▸ reasoning, 2 words"]


async def test_the_end_stays_visible_in_a_lower_window() -> None:
    async with open_chat(size=(100, 40)) as chat:
        await chat.send("go")
        chat.engine.says("".join(f"- line {n}\n" for n in range(80)))
        await chat.shows("line 79")
        for rows in (20, 32, 14):
            await chat.pilot.resize_terminal(100, rows)
            await chat.shows("line 79")
