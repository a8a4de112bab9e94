"""The commands, and the themes, to choose from by typing."""

from __future__ import annotations

from textual.command import Command, CommandInput, CommandList, CommandPalette, SearchIcon
from textual.theme import ThemeProvider

from app.ui.base_screen import SubScreen
from app.ui.text import MARK


class Palette(CommandPalette, SubScreen[None]):
    """Textual's own, as quiet as the rest of the program; it bears keys that come before its list was laid out."""

    CSS_PATH = "palette.tcss"

    def on_mount(self) -> None:
        self.query_one(SearchIcon).icon = MARK

    def _action_command_list(self, action: str) -> None:
        # Textual has no lines for a list without a height.
        if self.query_one(CommandList).scrollable_content_region.height:
            super()._action_command_list(action)


class ThemePalette(Palette):
    """Every theme; the list begins at the one that is worn."""

    def __init__(self) -> None:
        super().__init__(providers=[ThemeProvider], placeholder="search the themes")

    def _refresh_command_list(self, command_list: CommandList, commands: list[Command], clear_current: bool) -> None:
        super()._refresh_command_list(command_list, commands, clear_current)
        names = [command.hit.text for command in commands]
        if not self.query_one(CommandInput).value and self.app.theme in names:
            command_list.highlighted = names.index(self.app.theme)
            # Before it is laid out there is nowhere to go.
            self.call_after_refresh(command_list.scroll_to_highlight)
