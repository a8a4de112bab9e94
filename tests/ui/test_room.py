"""Check texts in little room: no needless cuts, no mark without its meaning."""

from __future__ import annotations

import re

import pytest
from textual.content import Content
from textual.selection import SELECT_ALL

from app.conversations.titles import in_brief
from app.core.errors import AppError
from app.ui.text import cut, side_by_side
from app.ui.widgets.rows_view import RowsView
from tests.ui.chat_driver import open_chat


@pytest.mark.parametrize(
    ("width", "lines"),
    [
        (30, ["one · two · three"]),
        (12, ["one · two", "three"]),
        (4, ["one", "two", "three"]),
        (0, ["one", "two", "three"]),
    ],
)
def test_parts_wrap_without_a_separator_at_the_line_end(width: int, lines: list[str]) -> None:
    assert side_by_side(["one", "two", "three"], width, " · ").split("\n") == lines


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


async def test_a_long_path_is_wrapped_and_copied_whole() -> None:
    path = f"/home/me/{'a_long_folder/' * 8}file.gguf"
    async with open_chat(size=(60, 24)) as chat:
        await chat.screen.messages.notice(f"Kept in {path}.")
        await chat.shows("file.gguf.")
        notice = chat.screen.query_one(".notice")
        assert notice.get_selection(SELECT_ALL) == (f"Kept in {path}.", "\n")
        await chat.screen.messages.fail(AppError(f"{path} is not a file.", f"Look at {path}."))
        await chat.shows("/home/me/")
        chat.screen.hint.say(f"Saved as {path}.")
        await chat.shows("Saved as")


@pytest.mark.parametrize("long", ["", "\nword" * 5000], ids=["short", "long"])
async def test_a_prompt_keeps_its_tabs(long: str) -> None:
    async with open_chat(size=(40, 24)) as chat:
        chat.screen.prompt.insert(f"if x:\n\ty = 1{long}")
        await chat.pilot.press("enter")
        await chat.until(lambda: chat.engine.requests)
        await chat.pilot.press("ctrl+home")
        await chat.shows("        y = 1")
        said = chat.screen.messages.message_views[0].query(RowsView).last()
        copied = said.get_selection(SELECT_ALL)
        assert copied is not None
        assert copied[0].startswith("if x:\n\ty = 1")


@pytest.mark.parametrize(("room", "said"), [(13, "one two three"), (12, "one two…"), (4, "one…"), (0, "")])
def test_a_line_is_cut_between_words(room: int, said: str) -> None:
    assert cut(Content("one two three"), room).plain == said


def test_cut_text_keeps_its_styles() -> None:
    assert cut(Content.assemble(("one ", "bold"), "two three"), 9).spans == Content.styled("one ", "bold").spans
    assert cut(Content.styled("one two three", "bold"), 9).spans == Content.styled("one two…", "bold").spans


async def test_a_long_prompt_leaves_the_conversation_some_of_few_rows() -> None:
    async with open_chat(size=(40, 12)) as chat:
        await chat.exchange("Count.", "one")
        for line in range(8):
            await chat.type(f"line {line}")
            await chat.pilot.press("ctrl+j")
        await chat.shows("line 7")
        assert chat.rows[-1].strip().startswith("ctrl+d")
        assert "one" in chat.text
        assert chat.screen.max_scroll_y == 0


async def test_a_search_for_prompts_shows_that_it_finds_nothing() -> None:
    async with open_chat() as chat:
        await chat.exchange("Count.", "one")
        await chat.pilot.press("ctrl+s")
        await chat.type("xyz")
        await chat.shows("Nothing found; esc closes.")
        await chat.pilot.press("escape")
        await chat.until(lambda: "Nothing is found" not in chat.text)


@pytest.mark.parametrize("width", [80, 60])
async def test_help_fits_the_window(width: int) -> None:
    async with open_chat(size=(width, 40)) as chat:
        await chat.type("/help")
        await chat.pilot.press("enter")
        await chat.until(lambda: any(re.search(r"@file +include a file", row) for row in chat.rows))
