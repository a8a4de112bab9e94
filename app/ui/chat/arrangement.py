"""What stands beside the conversation, by how wide the terminal is and what the user has asked for."""

from __future__ import annotations

from dataclasses import dataclass, replace

SIDEBAR_FROM = 100
PANEL_FROM = 110
"""Columns from which each shows by itself."""
_LEAST_TEXT = 44
"""Columns that the answer keeps, whatever stands beside it."""
_ROOMY_FROM = 160
_NARROW, _WIDE = (28, 32), (36, 40)
"""Cells of the sidebar and of the panel."""
LEAST_FOR_SIDEBAR, LEAST_FOR_PANEL = (_LEAST_TEXT + width for width in _NARROW)
"""Columns from which each can be asked for."""


@dataclass(frozen=True, slots=True)
class Arrangement:
    """What the user wants beside the conversation; None leaves it to the width.

    Attributes:
        sidebar: The conversations.
        panel: The readouts.
        panel_first: Whether the panel stays where there is room for one only: the last one asked for does.
    """

    sidebar: bool | None = None
    panel: bool | None = None
    panel_first: bool = True

    def widths(self, columns: int) -> tuple[int, int]:
        """Cells of the sidebar and of the panel; 0 for what is not shown."""
        sidebar, panel = _WIDE if columns >= _ROOMY_FROM else _NARROW
        room = columns - _LEAST_TEXT
        has_sidebar = room >= sidebar and (columns >= SIDEBAR_FROM if self.sidebar is None else self.sidebar)
        has_panel = room >= panel and (columns >= PANEL_FROM if self.panel is None else self.panel)
        if has_sidebar and has_panel and room < sidebar + panel:
            has_sidebar, has_panel = not self.panel_first, self.panel_first
        return sidebar * has_sidebar, panel * has_panel

    def with_sidebar(self, wanted: bool) -> Arrangement:
        """After the conversations were asked for, or sent away."""
        return replace(self, sidebar=wanted, panel_first=not wanted)

    def with_panel(self, wanted: bool) -> Arrangement:
        """After the readouts were asked for, or sent away."""
        return replace(self, panel=wanted, panel_first=wanted)
