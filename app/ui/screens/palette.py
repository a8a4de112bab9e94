"""The commands to choose from by typing."""

from __future__ import annotations

from textual.command import CommandPalette, SearchIcon


class Palette(CommandPalette):
    """Textual's own, as quiet as the rest of the program."""

    CSS_PATH = "palette.tcss"

    def on_mount(self) -> None:
        self.query_one(SearchIcon).icon = "\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT}"
