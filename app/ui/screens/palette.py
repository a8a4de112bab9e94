"""The command palette and the theme palette."""

from __future__ import annotations

from textual.command import Command, CommandInput, CommandList, CommandPalette, SearchIcon
from textual.content import Content
from textual.theme import ThemeProvider

from app.ui.base_screen import SubScreen
from app.ui.text import MARK

_NAME = 22
"""Cells of a command's name."""


class Palette(CommandPalette, SubScreen[None]):
    """Textual's palette with one line per command; accepts keys before its list is laid out."""

    CSS_PATH = "palette.tcss"

    def on_mount(self) -> None:
        self.query_one(SearchIcon).icon = MARK

    def _action_command_list(self, action: str) -> None:
        # Textual fails on a list without a height.
        if self.query_one(CommandList).scrollable_content_region.height:
            super()._action_command_list(action)

    def _refresh_command_list(self, command_list: CommandList, commands: list[Command], clear_current: bool) -> None:
        lines = [Command(_one_line(one.prompt), one.hit, id=one.id) for one in commands]
        super()._refresh_command_list(command_list, lines, clear_current)


class ThemePalette(Palette):
    """All themes; the current one is highlighted first."""

    def __init__(self) -> None:
        super().__init__(providers=[ThemeProvider], placeholder="search the themes")

    def _refresh_command_list(self, command_list: CommandList, commands: list[Command], clear_current: bool) -> None:
        super()._refresh_command_list(command_list, commands, clear_current)
        names = [command.hit.text for command in commands]
        if not self.query_one(CommandInput).value and self.app.theme in names:
            command_list.highlighted = names.index(self.app.theme)
            # The list has no size before it is laid out.
            self.call_after_refresh(command_list.scroll_to_highlight)


def _one_line(prompt: object) -> Content:
    """Return a command's name and its help, which Textual puts below it, in one line."""
    content = prompt if isinstance(prompt, Content) else Content(str(prompt))
    name, *texts = content.split("\n")
    return Content.assemble(name.pad_right(max(1, _NAME - name.cell_length)) if texts else name, *texts)
