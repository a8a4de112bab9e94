"""The settings: what each does, what it is and why, and how to change it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.getters import query_one
from textual.widgets import Input, Static

from app.core.errors import AppError
from app.core.printable import printable
from app.models.pair_info import PairInfo
from app.settings.kinds import Value
from app.settings.layers import Origin
from app.settings.live import LiveSettings
from app.settings.tree import Setting
from app.ui.base_screen import SubScreen
from app.ui.key_names import key
from app.ui.keys.bar import KeyBar
from app.ui.settings.changing import Changing
from app.ui.settings.field import Field
from app.ui.settings.inputs import SettingFilter, TextInput
from app.ui.settings.line import Shown
from app.ui.settings.list import SettingList
from app.ui.settings.rows import (
    PRESET,
    not_here,
    rows,
    stepped,
    troubles,
    whether_to_load,
    whether_to_remove,
    whether_to_reset,
)
from app.ui.settings.unfinished import Unfinished
from app.ui.text import MARK
from app.ui.widgets.filter_input import FilterInput
from app.ui.widgets.header import HeaderLine
from app.ui.widgets.hint import Hint

_PAGE = 8


class SettingsScreen(SubScreen[bool]):
    """See and change the settings; the result is whether the models are to be loaded anew.

    Args:
        live: The settings.
        measured: What drafting has brought so far, a line for each way of drafting.
        themes: The names of the themes there are.
        on_change: Called after every change.
        pair: What is loaded, or None.
        unfinished: The texts that were left before they were taken; None for none.
        can_load: Whether the models may be loaded anew though nothing has changed: they, or the draft, have failed.
    """

    BINDING_GROUP_TITLE = "Settings"
    AUTO_FOCUS = "SettingFilter"
    CSS_PATH = "screen.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "back", key_display="esc", id="settings.leave", tooltip="Back to the chat"),
        Binding("tab", "scope", "for whom", id="settings.scope", tooltip="For all, or for this one", priority=True),
        Binding("ctrl+x", "reset", "reset", id="settings.reset", tooltip="Take its change back", priority=True),
        Binding("ctrl+l", "reset_all", "reset all", id="settings.reset_all", tooltip="Back to defaults", priority=True),
        Binding("ctrl+s", "save", "save preset", id="settings.save", tooltip="Keep them as a preset", priority=True),
        Binding("ctrl+k", "remove", "remove preset", id="settings.remove", tooltip="Forget the preset", priority=True),
        Binding("ctrl+r", "dismiss(True)", "load anew", id="settings.load", tooltip="Load models anew", priority=True),
        Binding("ctrl+o", "move", "move the file", id="settings.move", tooltip="Begin a new file", priority=True),
    ]
    SHOWN_FIRST = (
        "settings.change",
        "value.keep",
        "text.keep",
        "text.break_line",
        "settings.leave",
        "settings.load",
        "settings.remove",
        "settings.scope",
        "settings.reset",
        "settings.reset_all",
        "settings.save",
        "settings.move",
        "app.quit",
    )

    filter_input = query_one(SettingFilter)
    scope_line = query_one("#scope", Static)
    trouble = query_one("#trouble", Static)
    hint = query_one(Hint)

    def __init__(
        self,
        live: LiveSettings,
        measured: Sequence[str] = (),
        themes: Sequence[str] = (),
        on_change: Callable[[], object] = lambda: None,
        pair: PairInfo | None = None,
        unfinished: Unfinished | None = None,
        *,
        can_load: bool = False,
    ) -> None:
        super().__init__()
        self._live = live
        self._measured = measured
        self._themes = themes
        self._on_change = on_change
        self._can_load = can_load
        self._changing = Changing(live, pair)
        self.settings = SettingList(self._all())
        self._field = Field(self.settings, self._changing, unfinished or Unfinished())
        self._waited = self._changing.to_load
        self._asked = ""
        """What a second press of the same key confirms."""

    def compose(self) -> ComposeResult:
        yield HeaderLine("Settings")
        yield Static(id="trouble")
        with Horizontal(id="search"):
            yield Static(MARK, classes="mark")
            yield SettingFilter("type to filter")
            yield Static(id="scope")
        yield self.settings
        yield Hint()
        yield KeyBar()

    def on_mount(self) -> None:
        self._show()

    # What the user does

    @on(Input.Changed, "SettingFilter")
    def _filter(self, event: Input.Changed) -> None:
        self.settings.filter(event.value)

    @on(FilterInput.Pressed)
    async def _press(self, event: FilterInput.Pressed) -> None:
        if by := event.lines(_PAGE):
            self.settings.move(by)
        elif event.key in ("left", "right"):
            self._step(-1 if event.key == "left" else 1)
        elif self._asked == "load":
            self.dismiss(True)
        else:
            await self._take()

    @on(SettingList.Taken)
    async def _take(self) -> None:
        shown = self.settings.shown
        if shown is None or self._field.is_open:
            return
        if shown.options:
            self._step(1)
        elif refusal := not_here(shown.setting, self._changing.scope):
            self.hint.say(refusal)
        elif told := await self._field.open(shown):
            self.hint.say(told)

    @on(SettingList.Changed)
    async def _on_changed(self) -> None:
        self._asked = ""
        # The list may say so after the key that opened the field.
        if self._field.is_left:
            await self._close_field()
        self.refresh_bindings()

    @on(events.Click, "#scope")
    async def _on_scope_clicked(self) -> None:
        # As its key: what is being typed has begun as somebody's.
        await self.run_action("scope")

    @on(Input.Changed, "ValueInput")
    def _on_typed(self, event: Input.Changed) -> None:
        self._field.look(event.value)

    @on(TextInput.Changed)
    def _on_written(self, event: TextInput.Changed) -> None:
        self._field.look(event.text_area.text)

    @on(Input.Submitted, "ValueInput")
    async def _on_submitted(self, event: Input.Submitted) -> None:
        # Not the text that the message carries: a quick typist's last characters come behind it.
        await self._submit(event.input.value)

    @on(TextInput.Submitted)
    async def _on_text(self, event: TextInput.Submitted) -> None:
        await self._submit(event.value)

    async def _submit(self, text: str) -> None:
        told = await self._field.take(text)
        if told is not None:
            self.filter_input.focus()
            self._say(told)

    async def action_leave(self) -> None:
        if self._field.is_open:
            await self._close_field()
        elif self._asked == "load":
            self.dismiss(False)
        elif (waiting := self._changing.to_load) and waiting != self._waited:
            self._asked = "load"
            self.hint.ask(whether_to_load(waiting))
        else:
            self.dismiss(False)

    def action_scope(self) -> None:
        self._changing.other_scope()
        self._show()

    def action_reset(self) -> None:
        shown = self.settings.shown
        if shown is not None:
            self._say(self._changing.reset(shown.setting))

    def action_reset_all(self) -> None:
        if self._asked != "reset":
            self._asked = "reset"
            self.hint.ask(whether_to_reset())
            return
        self._asked = ""
        self.hint.forget()
        self._say(self._changing.reset_all())

    async def action_save(self) -> None:
        if not self._field.is_open:
            await self._field.open_for_preset()

    def action_remove(self) -> None:
        preset = self._changing.own_preset
        if self._asked != "remove":
            self._asked = "remove"
            self.hint.ask(whether_to_remove(preset))
            return
        self._say(self._changing.remove_preset(preset))

    def action_move(self) -> None:
        try:
            away = self._live.move_file_away()
        except AppError as error:
            self.hint.say(printable(error.message))
        else:
            self.hint.say(f"The file is {printable(away)} now.")
            self._changed()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Dim the keys that would do nothing."""
        editing = self._field.is_open
        if action == "move":
            return bool(self._live.content.unreadable)
        if action == "dismiss":
            return (self._can_load or bool(self._changing.to_load)) and not editing
        if action in ("scope", "save", "reset_all"):
            return not editing
        if action == "remove":
            at_presets = self.settings.shown is not None and self.settings.shown.setting.name == PRESET
            return at_presets and not editing and bool(self._changing.own_preset)
        if action == "reset":
            shown = self.settings.shown
            may = shown is not None and shown.origin in (Origin.FLAG, Origin.CONVERSATION, Origin.FILE)
            return False if editing else may or None
        return True

    @property
    def idle_keys(self) -> Collection[str]:
        return ("settings.change",) if self.settings.shown is None else ()

    # What comes of it

    def put_down(self) -> None:
        self._field.put_down()

    def _step(self, by: int) -> None:
        """One more or less."""
        shown = self.settings.shown
        if shown is not None:
            value = stepped(shown, by)
            if value is None:
                self.hint.say(f"{key('settings.change', 'enter').capitalize()} changes it.")
            else:
                self._set(shown.setting, value[0])

    def _set(self, setting: Setting, value: Value) -> None:
        if refusal := self._changing.refusal(setting, value):
            self.hint.say(refusal)
        else:
            self._say(self._changing.set(setting, value))

    def _say(self, told: str) -> None:
        """Something was changed, and this is to be said of it."""
        self.hint.say(told)
        self._asked = ""
        self._changed()

    def _changed(self) -> None:
        self._on_change()
        self._show()

    async def _close_field(self) -> None:
        if told := await self._field.close():
            self.hint.say(told)
        self.filter_input.focus()
        self.refresh_bindings()

    def _all(self) -> list[Shown]:
        return rows(self._live, self._changing.scope, self._themes, self._changing.pair)

    def _show(self) -> None:
        self.settings.show(self._all(), self._measured)
        self.scope_line.update(Content.styled(f"for {self._changing.scope.value}", "$quiet"))
        told = troubles(self._live)
        self.trouble.update(Content("\n".join(told)))
        self.trouble.display = bool(told)
        self.refresh_bindings()
