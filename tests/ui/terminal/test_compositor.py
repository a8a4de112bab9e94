"""Drawing of changes, even if two widgets scroll before the next drawing."""

from collections.abc import Iterable
from typing import Any

import pytest
from textual.app import App, ComposeResult
from textual.content import Content
from textual.geometry import Region
from textual.strip import Strip

from app.ui.base_screen import BaseScreen
from app.ui.widgets.row_canvas import RowCanvas, draw_soon
from tests.ui.terminal.emulator import Emulator

_HEIGHT, _WIDTH = 6, 60


def numbered(number: int) -> str:
    return f"{'abcdefghijklmnopqrst'[number] * 20} {number}"


class Lines(RowCanvas):
    """Lines from a number."""

    DEFAULT_CSS = f"Lines {{ height: {_HEIGHT}; }}"
    top = 0

    def strips(self, first: int, end: int) -> Iterable[Strip]:
        for number in range(self.top + first, self.top + end):
            yield self.finished(self.segments([(0, Content(numbered(number)))], number), _WIDTH)

    def scroll_soon(self) -> None:
        self.top += 1
        draw_soon(self, Region(0, _HEIGHT - 1, _WIDTH, 1), scrolled=1)


class TwoLists(BaseScreen[None]):
    """A list above another list."""

    def compose(self) -> ComposeResult:
        yield Lines()
        yield Lines()


async def test_two_widgets_that_scroll_in_one_turn_are_both_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, app = Emulator(_WIDTH, 2 * _HEIGHT), App[None]()

    def display(screen: object, changes: Any) -> None:
        if changes is not None and not app._batch_count:
            terminal.feed(changes.render_segments(app.console))

    async with app.run_test(size=(_WIDTH, 2 * _HEIGHT)) as pilot:
        app._sync_available = True
        monkeypatch.setattr(app, "_display", display)
        await app.push_screen(TwoLists())
        await pilot.pause()
        assert terminal.rows == [numbered(y) for y in range(_HEIGHT)] * 2
        for lines in app.screen.query(Lines):
            lines.scroll_soon()
        await pilot.pause(0.1)
        assert terminal.rows == [numbered(y) for y in range(1, _HEIGHT + 1)] * 2
