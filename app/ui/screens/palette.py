"""The commands to choose from by typing."""

from __future__ import annotations

from textual.command import CommandList, CommandPalette, SearchIcon

from app.ui.screens.overlay import Overlay
from app.ui.text import MARK


class Palette(CommandPalette, Overlay[None]):
    """Textual's own, as quiet as the rest of the program; it bears keys that come before its list was laid out."""

    CSS_PATH = "palette.tcss"

    def on_mount(self) -> None:
        self.query_one(SearchIcon).icon = MARK

    def _action_command_list(self, action: str) -> None:
        # Textual has no lines for a list without a height.
        if self.query_one(CommandList).scrollable_content_region.height:
            super()._action_command_list(action)
