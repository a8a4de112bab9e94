"""What drawing leaves out, and that nobody sees it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.segment import Segment
from textual import widget as textual_widget
from textual._compositor import ChopsUpdate, Compositor, CompositorUpdate
from textual.app import App
from textual.geometry import Region
from textual.scrollbar import ScrollBar
from textual.strip import Strip
from textual.widget import Widget

from app.ui.sidebar.readouts import Readouts
from app.ui.widgets.near_draw import NearCompositor
from app.ui.widgets.steady_bar import SteadyScrollBar
from tests.ui.chat_driver import Chat, open_chat
from tests.ui.fakes import STATS

_LINES = "".join(f"- line {number}\n" for number in range(80))
_MOVE = re.compile(r"\x1b\[(\d+);(\d+)H")
_STYLE = re.compile(r"\x1b\[[0-9;]*m|\n")


class Paper:
    """A terminal: it shows what it was told to, where it was told to."""

    def __init__(self, width: int, height: int) -> None:
        self._cells = [[" "] * width for _ in range(height)]

    def draw(self, sequence: str) -> None:
        _, *moves = _MOVE.split(sequence)
        for row, column, text in zip(moves[::3], moves[1::3], moves[2::3], strict=True):
            x = int(column) - 1
            for letter in _STYLE.sub("", text):
                self._cells[int(row) - 1][x : x + cell_len(letter)] = [letter, *[""] * (cell_len(letter) - 1)]
                x += cell_len(letter)

    @property
    def rows(self) -> list[str]:
        return ["".join(row).rstrip() for row in self._cells]


@pytest.fixture
def updates(monkeypatch: pytest.MonkeyPatch) -> list[CompositorUpdate]:
    """What the terminal is told, as it comes."""
    found: list[CompositorUpdate] = []

    def noted(self: App[None], screen: object, renderable: object) -> None:
        if isinstance(renderable, CompositorUpdate):
            found.append(renderable)

    monkeypatch.setattr(App, "_display", noted)
    return found


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often Textual was asked for a widget's lines, or laid out its children, by its class."""
    found: Counter[str] = Counter()
    render_lines, arrange = Widget.render_lines, vars(textual_widget)["arrange"]

    def drawn(self: Widget, crop: Region) -> list[Strip]:
        found[type(self).__name__] += 1
        return render_lines(self, crop)

    def arranged(self: Widget, *args: object, **more: object) -> object:
        found[f"children of {type(self).__name__}"] += 1
        return arrange(self, *args, **more)

    monkeypatch.setattr(Widget, "render_lines", drawn)
    monkeypatch.setattr(textual_widget, "arrange", arranged)
    return found


async def follow(chat: Chat) -> None:
    """A long answer, of which the end is in sight."""
    await chat.send("go")
    chat.engine.says(_LINES)
    await chat.shows("line 79")
    await chat.pilot.pause()


async def test_what_was_drawn_bit_by_bit_is_what_the_screen_shows(
    updates: list[CompositorUpdate], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_chat(size=(150, 30)) as chat:
        screen, console = chat.screen, chat.pilot.app.console
        paper = Paper(150, 30)

        async def check() -> None:
            await chat.pilot.pause()
            while updates:
                paper.draw(updates.pop(0).render_segments(console))
            with monkeypatch.context() as textuals_own:
                textuals_own.setattr(NearCompositor, "_get_renders", Compositor._get_renders)
                assert paper.rows == chat.rows

        screen.refresh()
        await check()
        await follow(chat)
        await check()
        for step in (
            lambda: chat.engine.says("more and more 日本語 words\n\n```python\nx = 1\n"),
            lambda: chat.type("typed"),
            lambda: chat.pilot.press("shift+enter"),
            lambda: chat.pilot.press("pageup"),
            lambda: chat.engine.says("```\n\n| a | b |\n|---|---|\n| c | d |\n"),
            lambda: chat.pilot.press("f5"),
            lambda: chat.pilot.press("ctrl+b"),
            lambda: chat.pilot.press("pagedown", "pagedown", "pagedown"),
            lambda: chat.engine.finishes(),
            lambda: chat.pilot.press("ctrl+p"),
            lambda: chat.pilot.press("escape"),
        ):
            done = step()
            if done is not None:
                await done
            await check()


async def test_an_answer_that_grows_is_all_that_is_drawn(
    work: Counter[str], updates: list[CompositorUpdate], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_chat(size=(200, 60)) as chat:
        await follow(chat)
        chat.engine.says("- line 80\n")
        await chat.shows("line 80")
        await chat.pilot.pause()
        monkeypatch.setattr(chat.screen.status, "catch_up", lambda: None)
        work.clear()
        updates.clear()
        chat.engine.says("- line 81\n- line 82\n")
        # To look at the screen would draw all of it.
        await chat.until(lambda: updates)
        await chat.pilot.pause()
        assert len(updates) == 1
        assert isinstance(updates[0], ChopsUpdate)
        assert work == Counter(f"children of {name}" for name in ("AnswerMessage", "Window", "MessageList"))


async def test_a_key_draws_the_prompt_and_nothing_else(work: Counter[str]) -> None:
    async with open_chat(size=(200, 60)) as chat:
        await follow(chat)
        await chat.type("a")
        await chat.pilot.pause()
        work.clear()
        await chat.type("b")
        await chat.pilot.pause()
        assert {name for name in work if not name.startswith("children")} == {"PromptInput"}


def cells(bar: ScrollBar) -> list[Segment]:
    return [segment for strip in bar.render_lines(bar.size.region) for segment in strip]


async def test_the_scrollbar_looks_as_textuals(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_chat(size=(100, 40)) as chat:
        await follow(chat)
        bar = chat.screen.messages.vertical_scrollbar
        assert isinstance(bar, SteadyScrollBar)
        for _ in range(4):
            await chat.pilot.press("pageup")
            await chat.pilot.pause()
            ours = cells(bar)
            with monkeypatch.context() as textuals_own:
                textuals_own.setattr(SteadyScrollBar, "render_lines", Widget.render_lines)
                bar._styles_cache.clear()
                bar._set_dirty()
                theirs = cells(bar)
            assert ours == theirs


async def test_of_the_scrollbar_only_what_has_moved_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_chat(size=(100, 40)) as chat:
        await follow(chat)
        bar = chat.screen.messages.vertical_scrollbar
        refreshed: list[int] = []
        refresh = ScrollBar.refresh

        def noted(self: Widget, *regions: Region, **more: bool) -> Widget:
            refreshed.append(len(regions))
            return refresh(self, *regions, **more)

        monkeypatch.setattr(ScrollBar, "refresh", noted, raising=False)
        bar.refresh()
        await chat.pilot.pause()
        assert refreshed == []
        bar.position -= 1.0
        await chat.pilot.pause()
        assert len(refreshed) == 1
        assert 0 < refreshed[0] < bar.size.height


async def test_a_scrollbar_under_the_mouse_is_another_colour() -> None:
    async with open_chat(size=(100, 40)) as chat:
        await follow(chat)
        bar = chat.screen.messages.vertical_scrollbar
        before = cells(bar)
        await chat.pilot.hover("MessageList", offset=(chat.screen.messages.size.width - 1, 5))
        await chat.until(lambda: bar.mouse_over)
        assert cells(bar) != before


def test_numbers_are_told_as_often_as_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.ui.sidebar.readouts.REDRAW_S", 0.5)
    now, told = 10.0, list[float]()
    readouts = Readouts(clock=lambda: now)
    readouts.begin()
    readouts.watch(lambda: told.append(now))
    for _ in range(12):
        readouts.measured(replace(STATS, predicted_n=STATS.predicted_n + 1), None, live=True)
        now += 0.2
    assert told == pytest.approx([10.0, 10.6, 11.2, 11.8])
    readouts.catch_up()
    readouts.catch_up()
    assert told[4:] == pytest.approx([12.4])
    readouts.measured(STATS, None, live=True)
    readouts.measured(STATS, None, live=False)
    assert len(told) == 6


@pytest.mark.parametrize("change", [Readouts.begin, Readouts.stopping, Readouts.unloaded])
def test_what_is_going_on_is_told_at_once(change: Callable[[Readouts], None]) -> None:
    told: list[str] = []
    readouts = Readouts(clock=lambda: 1.0)
    readouts.measured(STATS, None, live=True)
    readouts.watch(lambda: told.append(readouts.doing))
    change(readouts)
    readouts.measured(STATS, None, live=True)
    assert len(told) == 2


async def test_no_thread_keeps_the_keys_waiting_for_long() -> None:
    before = sys.getswitchinterval()
    try:
        async with open_chat():
            assert sys.getswitchinterval() == pytest.approx(0.001)
    finally:
        sys.setswitchinterval(before)


def test_a_key_waits_for_no_frame() -> None:
    program = "import app.ui.app; from textual.screen import UPDATE_PERIOD; print(UPDATE_PERIOD)"
    env = {name: value for name, value in os.environ.items() if name != "TEXTUAL_FPS"}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, check=True, text=True)
    assert float(done.stdout) < 0.005
