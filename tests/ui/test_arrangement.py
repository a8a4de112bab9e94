"""Widths of the sidebar and the panel."""

from __future__ import annotations

import pytest

from app.ui.chat.arrangement import Arrangement


@pytest.mark.parametrize(
    ("columns", "widths"),
    [(40, (0, 0)), (80, (0, 0)), (99, (0, 0)), (100, (28, 0)), (110, (28, 32)), (120, (28, 32)), (200, (36, 40))],
)
def test_what_stands_beside_by_itself(columns: int, widths: tuple[int, int]) -> None:
    assert Arrangement().widths(columns) == widths


def test_what_was_asked_for_is_shown_where_the_answer_keeps_its_room() -> None:
    assert Arrangement().with_panel(True).widths(80) == (0, 32)
    assert Arrangement().with_sidebar(True).widths(80) == (28, 0)
    assert Arrangement().with_sidebar(True).widths(60) == (0, 0)
    assert Arrangement().with_sidebar(True).with_panel(True).widths(90) == (0, 32)
    assert Arrangement().with_panel(True).with_sidebar(True).widths(90) == (28, 0)
    assert Arrangement().with_panel(True).with_sidebar(True).widths(120) == (28, 32)
    assert Arrangement().with_panel(True).widths(100) == (0, 32)
    assert Arrangement().with_sidebar(False).with_panel(False).widths(200) == (0, 0)
