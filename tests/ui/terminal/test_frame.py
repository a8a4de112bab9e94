"""Only differences are written, and the result looks as if everything were written."""

from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual.app import App
from textual.geometry import Offset, Region
from textual.strip import Strip

from app.conversations.store import Store
from app.ui.app import TandemApp
from app.ui.terminal.frame import Frame, FrameUpdate, Scroll
from tests.ui.driver import Chat, fill, open_chat
from tests.ui.terminal.emulator import Emulator
from tests.ui.test_snapshots_states import MARKDOWN

_WIDTH, _HEIGHT = 24, 2
_CONSOLE = Console(force_terminal=True, color_system="truecolor", legacy_windows=False)
_STYLES = [
    *(None, Style(bold=True), Style(color="#112233"), Style(color="#112233", bgcolor="#445566")),
    *(Style(underline=True), Style(reverse=True, color="#112233")),
]
_SEGMENTS = st.lists(
    st.tuples(st.sampled_from(["a", "ab", "a b", "é日", "—", "👍 ", " ", " " * 13]), st.sampled_from(_STYLES)),
    max_size=3,
)


Piece = tuple[tuple[int, int], Strip]


def piece(x: int, y: int, width: int, parts: list[tuple[str, Style | None]]) -> Piece:
    strip = Strip([Segment(text, style) for text, style in parts])
    return (y, x), strip.adjust_cell_length(width)


def changes(frame: Frame, pieces: Iterable[Piece], *, synchronized: bool = False, scroll: Scroll | None = None) -> str:
    return frame.changes(dict(pieces), _CONSOLE, synchronized=synchronized, scroll=scroll)


_PIECES = st.lists(
    st.tuples(st.sampled_from([0, 2, 5]), st.integers(0, _HEIGHT - 1), st.sampled_from([3, 5, 9, 20]), _SEGMENTS),
    max_size=4,
)


@given(st.lists(_PIECES, max_size=6), st.booleans())
def test_changes_show_the_same_as_everything(
    updates: list[list[tuple[int, int, int, Any]]], synchronized: bool
) -> None:
    frame, changed, whole = Frame(), Emulator(_WIDTH, _HEIGHT), Emulator(_WIDTH, _HEIGHT)
    for update in updates:
        pieces: list[Piece] = []
        for x, y, width, parts in update:
            new = piece(x, y, min(width, _WIDTH - x), parts)
            # Like the compositor's pieces, they do not overlap.
            if not any(at == y and left < x + width and x < left + strip.cell_length for (at, left), strip in pieces):
                pieces.append(new)
        changed.feed(changes(frame, pieces, synchronized=synchronized))
        whole.feed(changes(Frame(), pieces))
    halves = [
        [("", "wide") if character == "" else (character, style) for character, style in row] for row in whole.cells
    ]
    shown = [
        [("", "wide") if character == "" else (character, style) for character, style in row] for row in changed.cells
    ]
    assert shown == halves


@given(st.lists(st.sampled_from(["some text", "other", "日本", "", "an", "xyz"]), min_size=30, max_size=30), st.data())
def test_scrolled_lines_show_the_same_as_everything(texts: list[str], data: st.DataObject) -> None:
    frame, changed, whole = Frame(), Emulator(30, 12), Emulator(30, 12)
    before = 0
    for at in data.draw(st.lists(st.integers(0, 18), max_size=4)):
        rows = data.draw(st.sampled_from([(), (2,), range(12)]))
        beside = [piece(0, y, 8, [(f"row {at + y}", _STYLES[1])]) for y in rows]
        beside += [piece(28, y, 2, [("█" if y > at % 5 else " ", _STYLES[2])]) for y in range(1, 11)]
        lines = [piece(8, y, 20, [(texts[at + y], _STYLES[(at + y) % 4])]) for y in range(1, 11)]
        scroll = Scroll(Region(8, 1, 22, 10), at - before)
        scrolls = 0 < scroll.n < 10 and frame.can_scroll(scroll, 30)
        fresh = [*beside, *(lines[-scroll.n :] if scrolls else lines)]
        changed.feed(changes(frame, fresh, synchronized=True, scroll=scroll if scrolls else None))
        whole.feed(changes(Frame(), [*beside, *lines]))
        assert changed.cells == whole.cells
        before = at


def test_text_that_moves_up_is_not_written_again() -> None:
    frame, scroll = Frame(), Scroll(Region(9, 0, 40, 12), 2)
    lines = [f"{'abcdefghijklmnopqrst'[number] * 20} {number}" for number in range(20)]
    beside = [piece(0, y, 9, [(f"side {y}", None)]) for y in range(12)]
    changes(frame, [*beside, *(piece(9, y, 40, [(lines[y], None)]) for y in range(12))])
    assert frame.can_scroll(scroll, 49)
    written = changes(
        frame, [piece(9, y, 40, [(lines[y + 2], None)]) for y in (10, 11)], synchronized=True, scroll=scroll
    )
    assert written.startswith("\x1b[1;12r\x1b[2S\x1b[r")
    assert "mmmm 12" in written
    assert "llll 11" not in written
    assert "10" in written.replace("mmmm 12", "")


@pytest.mark.parametrize(("side", "width"), [("a side that is longer than text {}", 49), ("side", 50)])
def test_lines_are_written_where_scrolling_saves_nothing_or_a_part_is_unknown(side: str, width: int) -> None:
    frame = Frame()
    beside = [piece(0, y, 40, [(side.format(y), None)]) for y in range(12)]
    changes(frame, [*beside, *(piece(40, y, 9, [(f"text {y}", None)]) for y in range(12))])
    assert not frame.can_scroll(Scroll(Region(40, 0, 9, 12), 2), width)


def test_only_the_end_of_a_growing_line_is_written() -> None:
    frame = Frame()
    changes(frame, [piece(4, 1, 30, [("Some words", None)])])
    assert changes(frame, [piece(4, 1, 30, [("Some words of", None)])]) == "\x1b[2;16Hof"
    assert changes(frame, [piece(4, 1, 30, [("Some words of", None)])]) == ""


def test_each_style_is_switched_to_once_in_a_frame() -> None:
    rows = [piece(0, y, 20, [("label", _STYLES[2]), ("  ", None), ("value", None)]) for y in range(5)]
    written = changes(Frame(), rows, synchronized=True)
    assert (written.count("38;2;17;34;51"), written.count("label"), written.count("value")) == (1, 5, 5)


def test_a_frame_without_a_change_is_not_written() -> None:
    frame, cursor = Frame(), Offset(3, 1)
    update = FrameUpdate(frame, dict([piece(0, 0, 5, [("words", None)])]), synchronized=True)
    assert "words" in update.text(_CONSOLE, cursor)
    assert update.text(_CONSOLE, cursor) == ""
    assert update.text(_CONSOLE, Offset(4, 1)) == "\x1b[?2026h\x1b[2;5H\x1b[?2026l"


def test_a_line_with_wide_characters_is_written_whole() -> None:
    frame = Frame()
    changes(frame, [piece(0, 0, 12, [("日本 words", None)])])
    assert "日本 words!" in changes(frame, [piece(0, 0, 12, [("日本 words!", None)])])


def test_everything_is_written_after_forgetting() -> None:
    frame = Frame()
    changes(frame, [piece(0, 0, 5, [("words", None)])])
    frame.forget()
    assert "words" in changes(frame, [piece(0, 0, 5, [("words", None)])])


@pytest.mark.parametrize("seed", range(3))
async def test_the_terminal_shows_what_the_compositor_does(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal, random, file = Emulator(120, 40), Random(seed), tmp_path / "conversations.db"
    fill(file, "rivers", "a longer title that takes two lines", "日本語のタイトル")

    def display(app: App[Any], screen: object, changes: Any) -> None:
        if changes is not None and not app._batch_count:
            terminal.feed(changes.render_segments(app.console))

    monkeypatch.setattr(TandemApp, "_display", display)
    async with open_chat(size=(120, 40), store=lambda: Store(file)) as chat:
        chat.app._sync_available = seed > 0
        await chat.send("Show every kind of block.")
        for at in range(0, len(MARKDOWN), 40):
            chat.engine.says(MARKDOWN[at : at + 40])
            await chat.pilot.press(random.choice(_KEYS))
            if random.random() < 0.3:
                await shows_the_same(chat, terminal)
        await shows_the_same(chat, terminal)


_KEYS = ("a", "backspace", "pageup", "pagedown", "ctrl+end", "f1", "f4", "escape", "f5", "f7", "f3", "ctrl+p", "down")


async def shows_the_same(chat: Chat, terminal: Emulator) -> None:
    await chat.pilot.pause()
    await chat.stands_still()
    # The rows of a dialog leave out the screen below it, which the terminal still shows.
    if not chat.app.screen.is_modal:
        assert terminal.rows == chat.rows
