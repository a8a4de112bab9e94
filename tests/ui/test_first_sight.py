"""The chat for a first-time user, in small windows and without colors."""

from dataclasses import replace

import pytest
from textual.driver import Driver

from app.core.errors import AppError
from app.engine.sources import Source
from app.engine.text.segments import Segment
from app.ui.app import TandemApp
from app.ui.chat.inspector import step_lines, step_rows
from app.ui.reading.token_rows import COLORLESS, TokenDocument
from app.ui.terminal.frame import Frame
from app.ui.text import MARK
from tests.fake_engine import PAIR
from tests.ui.driver import open_chat
from tests.ui.transcript.test_parts import ROUND

_WELCOME_TEXT = "The draft model proposes"


async def test_an_empty_chat_shows_what_the_colors_mean_and_where_to_go() -> None:
    async with open_chat() as chat:
        await chat.shows(
            _WELCOME_TEXT, "f2   compare with and without the draft", "f4   settings", "f6   choose a pair"
        )
        await chat.send("one")
        await chat.until(lambda: _WELCOME_TEXT not in chat.text)
        await chat.answer("first")
        await chat.press("ctrl+n", shows=_WELCOME_TEXT)


async def test_a_notice_keeps_the_welcome_text_and_a_failure_replaces_it() -> None:
    async with open_chat() as chat:
        chat.screen.view.messages.notice("Tandem opens with demo from now on.")
        await chat.shows("Tandem opens with demo from now on.")
        assert _WELCOME_TEXT in chat.text
        assert chat.text.index("all keys") < chat.text.index("Tandem opens")
        chat.screen.view.messages.fail(AppError("It is broken."))
        await chat.until(lambda: _WELCOME_TEXT not in chat.text)


async def test_a_small_window_shows_the_beginning_of_the_welcome_text() -> None:
    async with open_chat(size=(40, 30)) as chat:
        await chat.shows(_WELCOME_TEXT)
        for rows, last in ((24, "f1   all keys"), (13, "faster."), (8, "one pass")):
            await chat.pilot.resize_terminal(40, rows)
            await chat.until(lambda: chat.said[0].startswith(_WELCOME_TEXT) and chat.said[-1].startswith(last))  # noqa: B023


async def test_the_welcome_text_is_about_the_loaded_pair() -> None:
    async with open_chat() as chat:
        await chat.shows(_WELCOME_TEXT)
        chat.engine.loaded(replace(PAIR, draft=None, draft_kind=None))
        await chat.shows("N-grams (repeated text) propose the next tokens")


async def test_the_welcome_text_names_the_users_own_keys() -> None:
    async with open_chat() as chat:
        chat.app.set_keymap({"chat.tokens": "f9"})
        await chat.shows("f9   color tokens by source")
        chat.app.set_keymap({"chat.tokens": "ctrl+right_square_bracket"})
        await chat.shows("ctrl+]  color tokens by source", "f2      compare with and without the draft")


async def test_the_theme_list_begins_at_the_current_theme() -> None:
    theme = "textual-light"
    async with open_chat(size=(60, 14)) as chat:
        app = chat.app
        assert isinstance(app, TandemApp)
        app.theme = theme
        app.action_change_theme()
        await chat.shows(f"{MARK} {theme}")
        await chat.pilot.press(*"nord", "enter")
        await chat.until(lambda: app.theme == "nord")


@pytest.mark.parametrize("width", [38, 54, 60, 78, 120])
def test_lines_of_a_step_are_complete_at_any_width(width: int) -> None:
    details = replace(ROUND, number=1234)
    lines = [*step_rows([details, replace(details, number=999)], 0, width), *step_lines(details, width)]
    assert all(line.cell_length <= width for line in lines)
    assert lines[-1].plain.startswith("the target wrote 0 (p .54); the dr")


async def test_the_smallest_window_shows_why_there_is_no_answer() -> None:
    async with open_chat(size=(24, 5)) as chat:
        await chat.send("go")
        chat.engine.fails(AppError("It is broken.", "Fix it."))
        await chat.shows("Fix it.")
        assert "It is broken." in chat.text


def test_without_colors_the_targets_tokens_are_reported_by_their_shape() -> None:
    document = TokenDocument(COLORLESS)
    document.append([Segment("drafted", Source.MODEL), Segment(" own")])
    (row,) = document.open
    styles = [(row.content.plain[span.start : span.end], span.style) for span in row.content.spans]
    assert styles == [("drafted", ""), (" own", "bold underline")]


async def test_the_whole_screen_is_drawn_when_a_suspended_program_continues(monkeypatch: pytest.MonkeyPatch) -> None:
    forgotten: list[Frame] = []
    async with open_chat() as chat:
        await chat.shows("ready")
        await chat.pilot.pause()
        monkeypatch.setattr(Frame, "forget", lambda frame: forgotten.append(frame))
        chat.app.post_message(Driver.SignalResume())
        await chat.until(lambda: forgotten)
