"""Everything that is measured of an answer, beside the conversation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from textual.content import Content
from textual.widget import Widget

from app.events import PairInfo
from app.ui.numbers import of_document
from app.ui.readout_text import Group, earlier_groups, live_groups
from app.ui.readouts import Readouts


class ReadoutPanel(Widget):
    """The readouts of the running answer, or what was kept of an earlier one.

    Args:
        readouts: What is shown.
    """

    def __init__(self, readouts: Readouts) -> None:
        super().__init__()
        self._readouts = readouts
        self._pair: PairInfo | None = None
        self._earlier: Mapping[str, Any] | None = None
        self._drawn = Content("")

    def on_mount(self) -> None:
        self._readouts.watch(self._on_changed)

    def show_pair(self, pair: PairInfo | None) -> None:
        """The models that are loaded."""
        self._pair = pair
        self._draw()

    def show_earlier(self, document: Mapping[str, Any]) -> None:
        """Show what was kept of an answer, until there is something new or the panel is clicked."""
        self._earlier = document
        self._draw()

    def on_click(self) -> None:
        self._earlier = None
        self._draw()

    def on_show(self) -> None:
        self._draw()

    def on_resize(self) -> None:
        self._draw()

    def render(self) -> Content:
        return self._drawn

    def _on_changed(self) -> None:
        if self._readouts.doing or self._readouts.live:
            self._earlier = None
        self._draw()

    def _draw(self) -> None:
        width, height = self.size
        if not self.display or not width:
            return
        if self._earlier is None:
            groups = live_groups(self._readouts, self._pair, width)
        else:
            names = [self._earlier.get(role) for role in ("target", "draft")]
            target, draft = (name if isinstance(name, str) else "" for name in names)
            groups = earlier_groups(of_document(self._earlier), (target, draft), width)
        drawn = Content("\n").join(_fit(groups, height))
        if drawn != self._drawn or drawn.spans != self._drawn.spans:
            self._drawn = drawn
            self.refresh()


def _fit(groups: Iterable[Group], height: int) -> list[Content]:
    """The groups with a line between them, without where that helps, and without those that do not fit."""
    filled = [group for group in groups if group]
    gap = [Content("")] if sum(len(group) + 1 for group in filled) <= height + 1 else []
    lines: list[Content] = []
    for group in filled:
        more = [*(gap if lines else []), *group]
        if len(lines) + len(more) <= height:
            lines += more
    return lines
