"""An answer grows without a layout of the screen, to the same places as with one."""

from __future__ import annotations

import pytest
from textual.widget import Widget

from app.ui.terminal.compositor import LineCompositor
from tests.ui.driver import open_chat
from tests.ui.test_snapshots_states import MARKDOWN


@pytest.mark.parametrize("size", [(80, 24), (150, 40)])
async def test_an_answer_grows_to_the_places_of_a_layout(
    size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = list[bool]()
    grow = LineCompositor.grow

    def checked(self: LineCompositor, widget: Widget, view: Widget, by: int, scrolled: int, height: int) -> bool:
        found.append(grow(self, widget, view, by, scrolled, height))
        assert self.root is not None
        for key in self._full_map:
            key._layout_cache.clear()
        if found[-1]:
            laid_out, _ = self._arrange_root(self.root, self.size, visible_only=False)
            assert self._full_map == laid_out
        return found[-1]

    monkeypatch.setattr(LineCompositor, "grow", checked)
    async with open_chat(size=size) as chat:
        for _ in range(3):
            await chat.exchange("One question.", MARKDOWN)
        await chat.send("Another one.")

        def written() -> int:
            answer = chat.screen.view.messages.answer
            return len(answer.text) if answer is not None and answer.has_grown else 0

        for at in range(0, len(MARKDOWN), 40):
            chat.engine.says(MARKDOWN[at : at + 40])
            await chat.until(lambda: at < written() <= at + 40)  # noqa: B023
            if at == 800:
                await chat.pilot.press("pageup", "pageup")
        await chat.pilot.pause()
    assert found.count(True) > 10, found
