"""The keys screen: every key of the screen below, and what it does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import ActiveBinding, Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Static

from app.ui.actions import LED_TO, bindings
from app.ui.base_screen import SubScreen
from app.ui.commands import COMMANDS
from app.ui.key_names import key, shown
from app.ui.keys import KeyBar
from app.ui.widgets.header import HeaderLine

_EDITING_GROUP = "Editing"
_GROUPS = {
    "match": "Chosen message",
    "message": "Chosen message",
    "title": "Title of a conversation",
    "found": "Conversations",
    "chat": "Chat",
    "prompt": "Prompt",
    "app": "Program",
    "pairs": "Pairs",
    "line": "Another pair",
    "add": "Another pair",
    "settings": "Settings",
    "value": "Value of a setting",
    "text": "Value of a setting",
    "tools": "Tools",
    "compare": "Comparison",
    "palette": "Commands",
}
"""Titles of actions by the beginnings of their ids."""
_KEY_WIDTH = 22


_EDIT_HELP = {
    "cursor_up": "Line above",
    "cursor_down": "Line below",
    "cursor_left": "Character before",
    "cursor_right": "Character after",
    "cursor_left_word": "Word before",
    "cursor_right_word": "Word after",
    "cursor_word_left": "Word before",
    "cursor_word_right": "Word after",
    "cursor_line_start": "Beginning of the line",
    "cursor_line_end": "End of the line",
    "home": "Beginning of the line",
    "end": "End of the line",
    "cursor_page_up": "Page above",
    "cursor_page_down": "Page below",
    "delete_left": "Delete the character before",
    "delete_right": "Delete the character after",
    "delete_word_left": "Delete the word before",
    "delete_word_right": "Delete the word after",
    "delete_left_word": "Delete the word before",
    "delete_right_word": "Delete the word after",
    "delete_left_all": "Delete to the beginning of the line",
    "delete_right_all": "Delete to the end of the line",
    "delete_to_start_of_line": "Delete to the beginning of the line",
    "delete_to_end_of_line": "Delete to the end of the line",
    "delete_to_end_of_line_or_delete_line": "Delete to the end of the line",
}
"""Textual's editing actions in one style; those that extend the selection are named after their movement."""


_NUMBER_MEANINGS = (
    ("speed", "Tokens per second of the whole answer"),
    ("speedup", "Speed compared with no draft"),
    ("(estimate)", "The speed with no draft was not measured here"),
    ("no draft", "Nothing was drafted; the number is the speed then"),
    ("paused", "Drafts would be slower now; Tandem tries again"),
    ("78% accepted, 2 of 3", "Drafted tokens that the target accepted"),
    ("recent", "The number above it, over the last 2 s"),
    ("step", "The target verifies all tokens of a draft at once"),
    ("tokens/step", "Accepted tokens per step, plus one of the target"),
    ("step 30 of 30", "Number of the explained step, and of all steps"),
    ("draft length", "Tokens of a draft"),
    ("drafted by", "The draft model, or n-gram (repeated earlier text)"),
    ("draft p, target p", "Probability that a model gave a token"),
    ("teal, amber", "Tokens of drafts; tokens of the target itself"),
    ("first token", "Time until the first token of an answer (TTFT)"),
    ("prefill", "Speed of reading the prompt"),
    ("context", "Tokens of the conversation, and how many fit"),
    ("measuring", "Tandem measures each pair once, to know when to draft"),
)
"""The names of numbers on the screen, and their meaning."""


class KeyListScreen(SubScreen[None]):
    """Lists the keys of the screen below by place, and the chat's commands; Textual's own editing keys come last.

    Args:
        bindings: The keys that work in the screen below.
        lists_commands: Whether slash commands work there.
        explains: Whether to explain the numbers first.
    """

    DEFAULT_CSS = """
    KeyListScreen { background: $background; color: $foreground; }
    KeyListScreen Static { padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = bindings("keys.leave")

    def __init__(self, bindings: Iterable[ActiveBinding], *, lists_commands: bool, explains: bool = False) -> None:
        super().__init__()
        self._explains = explains
        self._listed = list(bindings)
        self._lists_commands = lists_commands

    def compose(self) -> ComposeResult:
        yield HeaderLine("Keys")
        with VerticalScroll():
            yield Static(self._table())
        yield KeyBar()

    def _table(self) -> Table:
        groups: dict[str, dict[str, list[Binding]]] = {_EDITING_GROUP: {}}
        for _, binding, _, _ in self._listed:
            title = _GROUPS.get(binding.id.partition(".")[0]) if binding.id else _EDITING_GROUP
            if title and binding.description:
                groups.setdefault(title, {}).setdefault(binding.action, []).append(binding)
        editing = groups.pop(_EDITING_GROUP)
        rows = {title: [_row(together) for together in actions.values()] for title, actions in groups.items()}
        if self._lists_commands:
            rows["Commands"] = [(command.usage, command.help) for command in COMMANDS.all]
            rows["Commands"].append(("@file", "Include a file"))
            known = {binding.id for _, binding, _, _ in self._listed}
            for group, opener, title in LED_TO:
                if group[0].id not in known:
                    rows[title.format(key=key(opener.id))] = [(key(each.id), each.help) for each in group if each.help]
        if self._explains or self._lists_commands:
            numbers = {"Numbers": list(_NUMBER_MEANINGS)}
            rows = {**numbers, **rows} if self._explains else {**rows, **numbers}
        rows[_EDITING_GROUP] = [_row(together) for together in editing.values()]
        table = Table.grid(padding=(0, 2))
        table.add_column(max_width=_KEY_WIDTH)
        table.add_column(style=self.app.theme_variables["quiet"])
        for title, lines in rows.items():
            if lines:
                table.add_row(Text(title, "bold"))
                for keys, does in lines:
                    table.add_row(Text(keys), Text(does))
                table.add_row()
        return table


def _row(together: Sequence[Binding]) -> tuple[str, str]:
    keys = dict.fromkeys(binding.key_display or shown(binding.key) for binding in together)
    first = together[0]
    action, _, argument = first.action.partition("(")
    does = _EDIT_HELP.get(action, first.tooltip or first.description)
    if argument == "True)" and action in _EDIT_HELP:
        does = f"Select to the {does[:1].lower()}{does[1:]}"
    return ", ".join(keys), f"{does[:1].upper()}{does[1:]}"
