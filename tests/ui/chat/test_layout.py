"""What stands beside the conversation, by the width of the terminal."""

from __future__ import annotations

import pytest

from app.ui.chat.layout import SideWidths


@pytest.mark.parametrize(
    ("columns", "widths"),
    [(40, (0, 0)), (80, (0, 0)), (99, (0, 0)), (100, (28, 0)), (110, (28, 32)), (120, (28, 32)), (200, (36, 40))],
)
def test_what_stands_beside_by_itself(columns: int, widths: tuple[int, int]) -> None:
    assert SideWidths().at(columns) == widths


def test_what_was_asked_for_is_shown_where_the_answer_keeps_its_room() -> None:
    assert SideWidths().with_panel(True).at(80) == (0, 32)
    assert SideWidths().with_sidebar(True).at(80) == (28, 0)
    assert SideWidths().with_sidebar(True).at(60) == (0, 0)
    assert SideWidths().with_sidebar(True).with_panel(True).at(90) == (0, 32)
    assert SideWidths().with_panel(True).with_sidebar(True).at(90) == (28, 0)
    assert SideWidths().with_panel(True).with_sidebar(True).at(120) == (28, 32)
    assert SideWidths().with_panel(True).at(100) == (0, 32)
    assert SideWidths().with_sidebar(False).with_panel(False).at(200) == (0, 0)
