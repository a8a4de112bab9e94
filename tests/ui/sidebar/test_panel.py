"""The side panel on the screen."""

from __future__ import annotations

from dataclasses import replace

import pytest
from textual.strip import Strip

from app.ui.reading.rows import Line
from app.ui.sidebar.panel import ReadoutPanel
from app.ui.widgets.rows_view import RowsView
from tests.fake_engine import STATS
from tests.ui.driver import open_chat


async def test_a_panel_row_that_stays_is_not_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.ui.sidebar.readouts.REDRAW_S", 0.0)
    drawn: list[str] = []
    paint = RowsView._paint

    def noted(self: RowsView, number: int, line: Line, width: int) -> Strip:
        if isinstance(self, ReadoutPanel):
            drawn.append(self.rows[number].content.plain)
        return paint(self, number, line, width)

    monkeypatch.setattr(RowsView, "_paint", noted)
    async with open_chat(size=(160, 40)) as chat:
        await chat.send("go")
        chat.engine.says("word", stats=STATS)
        await chat.shows("78%")
        drawn.clear()
        more = replace(STATS, predicted_n=STATS.predicted_n + 900)
        chat.engine.says("word", stats=more)
        await chat.until(lambda: any("context" in row for row in drawn))
        assert not any("acceptance" in row or "first token" in row for row in drawn)
