"""Everything that is measured of an answer, beside the conversation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import zip_longest
from typing import Any

from textual.content import Content
from textual.geometry import Region
from textual.strip import Strip

from app.models.pair_info import PairInfo
from app.ui.sidebar.groups import Group, earlier_groups, live_groups
from app.ui.sidebar.numbers import of_document
from app.ui.sidebar.state import Readouts
from app.ui.widgets.lines_view import LinesView


class ReadoutPanel(LinesView):
    """The readouts of the running answer, or what was kept of an earlier one.

    Args:
        readouts: What is shown.
    """

    def __init__(self, readouts: Readouts) -> None:
        super().__init__()
        self._readouts = readouts
        self._pair: PairInfo | None = None
        self._earlier: Mapping[str, Any] | None = None
        self._is_last = False
        self._lines: list[Content] = []

    def on_mount(self) -> None:
        self._readouts.watch(self._on_changed)

    def show_pair(self, pair: PairInfo | None) -> None:
        """The models that are loaded."""
        self._pair = pair
        self._draw()

    def show_earlier(self, document: Mapping[str, Any], *, is_last: bool) -> None:
        """Show what was kept of an answer, until there is something new or the panel is clicked.

        Args:
            document: Its numbers.
            is_last: Whether the conversation ends with it.
        """
        self._earlier, self._is_last = document, is_last
        self._draw()

    def on_click(self) -> None:
        self._earlier = None
        self._draw()

    def on_show(self) -> None:
        self._draw()

    def on_resize(self) -> None:
        self._draw()

    def render(self) -> Content:
        return Content("\n").join(self._lines)

    def render_line(self, y: int) -> Strip:
        if y < len(self._lines):
            return self.draw(y, [(0, self._lines[y])])
        return Strip.blank(self.size.width, self.visual_style.rich_style)

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
            groups = earlier_groups(of_document(self._earlier), (target, draft), width, is_last=self._is_last)
        before, self._lines = self._lines, _wrapped(_fit(groups, height), width)
        # Most of them are as they were.
        pairs = zip_longest(before, self._lines)
        changed = [y for y, (old, new) in enumerate(pairs) if old is None or new is None or not old.is_same(new)]
        if changed:
            self.refresh(*(Region(0, y, width, 1) for y in changed))


def _wrapped(lines: Iterable[Content], width: int) -> list[Content]:
    return [part for line in lines for part in (line.wrap(width) if line.cell_length > width else [line])]


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
