"""The panes beside the conversation by the width of the terminal."""

import pytest

from app.ui.chat.view import side_widths
from tests.ui.driver import open_chat


@pytest.mark.parametrize(
    ("columns", "widths"),
    [(80, (0, 0)), (99, (0, 0)), (100, (28, 0)), (149, (28, 0)), (150, (28, 32)), (200, (36, 40))],
)
def test_side_panels_appear_if_the_window_is_wide_enough(columns: int, widths: tuple[int, int]) -> None:
    assert side_widths(columns) == widths


async def test_code_of_eighty_columns_is_not_wrapped() -> None:
    async with open_chat(size=(120, 30)) as chat:
        chat.screen.view.sidebar.display = True
        code = "x" * 80
        await chat.exchange("go", f"```\n{code}\n```")
        for columns in (120, 149, 150, 169, 170, 250):
            await chat.pilot.resize_terminal(columns, 30)
            await chat.shows(code)


def test_a_requested_panel_is_shown_if_the_answer_has_enough_room() -> None:
    assert side_widths(80, panel=True) == (0, 32)
    assert side_widths(60, sidebar=True) == (0, 0)
    assert side_widths(90, sidebar=True, panel=True) == (0, 32)
    assert side_widths(90, sidebar=True, panel=True, panel_first=False) == (28, 0)
    assert side_widths(200, sidebar=False, panel=False) == (0, 0)
