"""Streamed Markdown must end up as if it had come at once."""

from __future__ import annotations

import pytest
from textual.app import App, ComposeResult

from app.ui.screens.chat import ChatScreen
from app.ui.widgets.markdown import ModelMarkdown
from tests.ui.chat_driver import open_chat
from tests.ui.test_snapshots import ANSWER

HARD = "# A\r\n\ntext\n----\n\n```\nno language, no end [red]x[/red]\n\n\n  indented\n"


@pytest.mark.parametrize("size", [5, 50])
@pytest.mark.parametrize("text", [ANSWER, HARD], ids=["answer", "hard"])
async def test_pieces_give_the_same_text_as_the_whole(text: str, size: int) -> None:
    class Two(App[None]):
        CSS = "ModelMarkdown { width: 60; }"

        def compose(self) -> ComposeResult:
            yield ModelMarkdown()
            yield ModelMarkdown()

    app = Two()
    async with app.run_test(size=(60, 200)) as pilot:
        streamed, whole = app.query(ModelMarkdown)
        await whole.append(text)
        for start in range(0, len(text), size):
            await streamed.append(text[start : start + size])
        await pilot.pause()
        rows = [strip.text.rstrip() for strip in app.screen._compositor.render_strips()]
        height = whole.size.height
        assert streamed.size.height == height
        assert rows[:height] == rows[height : 2 * height]
        assert any("quicksort" in row or "indented" in row for row in rows)


async def test_hovering_a_table_shows_no_tooltip_made_by_the_model() -> None:
    async with open_chat() as chat:
        await chat.send("table")
        chat.engine.says("| [/x] |\n|---|\n| [/y] |\n")
        await chat.shows("[/y]")
        cells = list(chat.screen.query("MarkdownTableCellContents"))
        assert [cell.tooltip for cell in cells] == [None, None]


async def test_a_link_is_named_and_not_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    async with open_chat() as chat:
        monkeypatch.setattr(chat.pilot.app, "open_url", opened.append)
        await chat.send("link")
        chat.engine.says("[click me](https://example.org/x)")
        await chat.shows("click me")
        await chat.pilot.click("MarkdownParagraph", offset=(2, 0))
        await chat.shows("https://example.org/x")
        assert isinstance(chat.screen, ChatScreen)
    assert opened == []
