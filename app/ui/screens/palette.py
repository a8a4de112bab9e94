"""The palettes: a list of all actions, found by any word for them, and a list of all themes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from textual import on
from textual.app import App, ComposeResult
from textual.binding import ActiveBinding
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input

from app.engine.drafting_report import capitalized
from app.settings.table import SETTINGS
from app.ui.actions import BY_ID, CHAT, CONVERSATIONS, LED_TO, MESSAGE, PROGRAM, PROMPT, Action
from app.ui.base_screen import BaseScreen
from app.ui.chat.screen import ChatScreen
from app.ui.commands import find
from app.ui.key_names import key
from app.ui.text import MARK, cell
from app.ui.widgets.choice_list import ChoiceList
from app.ui.widgets.hint import Hint
from app.ui.widgets.inputs import FilterInput, SearchLine

_NAME_CELLS, _MIN_HELP_CELLS = 16, 12
"""Widths of a name, and of the narrowest description."""
_COLUMN_GAP = "  "
_OTHER_ROWS, _OTHER_ROWS_LOW_TERMINAL = 8, 1
"""Rows of the screen around the list."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of a palette: an action, and its key."""

    name: str
    run: Callable[[], Awaitable[object] | object]
    help: str = ""
    words: str = ""
    keys: str = ""


class EntryList(ChoiceList[Entry]):
    """A line for each entry: its name, what it does, and its key on the right."""

    def lines(self, at: int, width: int) -> list[Content]:
        return [self.line(at, width)]

    def line(self, at: int, width: int) -> Content:
        entry, is_chosen = self.rows[at], at == self.index
        keys = Content.styled(entry.keys, "$muted")
        room = width - 3 - _NAME_CELLS - len(_COLUMN_GAP) - keys.cell_length - len(_COLUMN_GAP) - 1
        mark = f" {MARK} " if is_chosen else "   "
        name = Content.styled(entry.name, "bold" if is_chosen else "")
        if not entry.help:
            line = Content.assemble(mark, name)
        elif room < _MIN_HELP_CELLS:
            line = Content.assemble(mark, name, _COLUMN_GAP, keys)
        else:
            line = Content.assemble(
                mark, cell(name, _NAME_CELLS), _COLUMN_GAP, cell(Content(entry.help), room), _COLUMN_GAP, keys
            )
        return cell(line, width).stylize("on $chosen") if is_chosen else line


class Palette(ModalScreen[Entry | None], BaseScreen[Entry | None]):
    """Choose an entry; the result is the entry, or None.

    Args:
        nothing: Text if no entry matches.
        found_only: Entries that only a search shows, below the others.
    """

    AUTO_FOCUS = "FilterInput"
    CSS_PATH = "palette.tcss"

    def __init__(
        self,
        entries: Sequence[Entry],
        placeholder: str,
        nothing: str = "Nothing found.",
        chosen: int = 0,
        found_only: Sequence[Entry] = (),
    ) -> None:
        super().__init__()
        self._found_only = found_only
        self._entries, self._placeholder, self._nothing, self._first = entries, placeholder, nothing, chosen
        self.listed = EntryList(select_at_once=True)
        self.listed.show_rows(entries, chosen)

    def compose(self) -> ComposeResult:
        with Vertical():
            yield SearchLine(FilterInput(self._placeholder, "palette."))
            yield self.listed

    def on_resize(self) -> None:
        # The class follows after this event.
        is_low = self.size.height < self.VERTICAL_BREAKPOINTS[1][0]
        self.listed.styles.max_height = max(1, self.size.height - (_OTHER_ROWS_LOW_TERMINAL if is_low else _OTHER_ROWS))

    @on(Input.Changed)
    def _search(self, event: Input.Changed) -> None:
        if event.value.strip():
            found = [*find(event.value, self._entries), *find(event.value, self._found_only)]
            self.listed.show_rows(found, 0, self._nothing)
        else:
            self.listed.show_rows(self._entries, self._first)

    @on(FilterInput.Pressed)
    def _press(self, event: FilterInput.Pressed) -> None:
        if event.key == "escape":
            self.dismiss(None)
        else:
            self._take()

    @on(EntryList.Selected)
    def _take(self) -> None:
        if self.listed.row is not None:
            self.dismiss(self.listed.row)


# All actions on a screen


def entries(screen: BaseScreen[Any]) -> Iterator[Entry]:
    """Yield the actions on a screen: its own keys, then the actions of the chat and of the program."""
    active: dict[str, ActiveBinding] = {}
    for one in screen.active_bindings.values():
        active.setdefault(one.binding.id or "", one)
    chat = screen if isinstance(screen, ChatScreen) else None
    known = (*CHAT, *PROMPT, *PROGRAM, *MESSAGE, *CONVERSATIONS) if chat is not None else PROGRAM
    own = (BY_ID[identity] for identity in active if identity in BY_ID)
    idle = {identity for identity, one in active.items() if not one.enabled}
    for action in (*(each for each in own if each not in known), *sorted(known, key=lambda each: each.id in idle)):
        if not action.help or action.id == "app.commands":
            continue
        if chat is not None and action.is_command:
            yield _entry(action, partial(_command, chat, action))
        elif action.id in active:
            one = active[action.id]
            yield _entry(action, partial(screen.app.run_action, one.binding.action, one.node))
        elif action.is_command:
            yield _entry(action, partial(screen.app.run_action, action.run))
        elif chat is not None and (opener := _OPENER_BY_ID.get(action.id)) is not None:
            yield _entry(action, partial(_lead, chat, opener, action), f"{key(opener.id)} ")


_OPENER_BY_ID = {action.id: opener for group, opener, _ in LED_TO for action in group}


def settings(screen: BaseScreen[Any]) -> Iterator[Entry]:
    """Yield the settings that can be changed from a screen."""
    if isinstance(screen, ChatScreen):
        for setting in SETTINGS:
            table, _, name = setting.name.partition(".")
            run = partial(screen.action_settings, name)
            yield Entry(
                name, run, capitalized(setting.text), f"setting {table} change", f"{key('chat.settings')} {name}"
            )


def _entry(action: Action, run: Callable[[], Awaitable[object] | object], before: str = "") -> Entry:
    command = f" /{action.name}" if action.is_command and not key(action.id) else ""
    return Entry(action.name, run, action.help, action.words, f"{before}{key(action.id)}{command}".strip())


async def _command(chat: ChatScreen, action: Action) -> None:
    if action.needs_argument:
        chat.controller.commands.begin_command(action.name)
    else:
        await chat.do("run_line", f"/{action.name}")


async def _lead(chat: ChatScreen, opener: Action, action: Action) -> None:
    """Open the place where an action is possible, and name its key: the user chooses its object first."""
    await chat.do(opener.run)
    screen = chat.app.screen
    screen.call_after_refresh(lambda: screen.query_one(Hint).say(f"{key(action.id)}: {action.help}"))


def themes(app: App[Any]) -> list[Entry]:
    """Return an entry for each theme."""
    return [Entry(name, partial(setattr, app, "theme", name)) for name in sorted(app.available_themes)]
