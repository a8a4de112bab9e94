"""The settings screen: what each setting does, its value and origin, and how to change it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.getters import query_one
from textual.message import Message
from textual.widgets import Input, Static

from app.core.errors import AppError
from app.core.printable import printable
from app.core.regular_file import with_line_feeds
from app.models.pair_info import PairInfo
from app.settings.kinds import Text, Value
from app.settings.layers import Origin
from app.settings.live import LiveSettings
from app.settings.table import Setting
from app.ui.base_screen import SubScreen
from app.ui.key_names import key
from app.ui.keys.footer import KeyBar
from app.ui.settings.edits import PRESET, SettingEdits, SettingView, stepped
from app.ui.settings.setting_list import RELOAD, SettingList
from app.ui.text import MARK
from app.ui.widgets.filter_input import FilterInput, QuietInput
from app.ui.widgets.header import HeaderLine
from app.ui.widgets.hint import Hint
from app.ui.widgets.text_editor import TextEditor

_PAGE = 8


class SettingFilter(FilterInput):
    """Text filters the settings; left and right change the chosen one."""

    BINDING_GROUP_TITLE = "Settings"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "tell('enter')", "change", id="settings.change", tooltip="Change the setting"),
        Binding("left", "tell('left')", "less", tooltip="Decrease, or previous choice", show=False),
        Binding("right", "tell('right')", "more", tooltip="Increase, or next choice", show=False),
    ]


class ValueInput(QuietInput):
    """A value in one line; typing replaces it."""

    BINDING_GROUP_TITLE = "Value of a setting"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "save", id="value.keep", tooltip="Save this value"),
    ]

    def __init__(self, value: str, placeholder: str = "") -> None:
        super().__init__(placeholder)
        self.value = value
        self.select_on_focus = True


class TextInput(TextEditor):
    """A text of several lines."""

    BINDING_GROUP_TITLE = "Value of a setting"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "save", id="text.keep", tooltip="Save this text"),
        Binding(
            "ctrl+j,shift+enter,alt+enter", "break_line", "new line", id="text.break_line", tooltip="Start a new line"
        ),
    ]

    @dataclass
    class Submitted(Message):
        value: str

    def __init__(self, text: str) -> None:
        super().__init__()
        self.load_text(text)
        self.move_cursor(self.document.end)

    def action_submit(self) -> None:
        self.post_message(self.Submitted(self.text))

    def action_break_line(self) -> None:
        self.break_line()

    def on_paste(self, event: events.Paste) -> None:
        event.text = printable(with_line_feeds(event.text))


class SettingsScreen(SubScreen[bool]):
    """See and change settings; the result is whether to reload the models.

    Args:
        live: The settings.
        themes: Names of the themes.
        on_change: Called after every change.
        pair: The loaded pair, or None.
        can_load: Whether a reload is possible without a change, because the models or the draft failed to load.
    """

    BINDING_GROUP_TITLE = "Settings"
    AUTO_FOCUS = "SettingFilter"
    CSS_PATH = "screen.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "back", key_display="esc", id="settings.leave", tooltip="Back to the chat"),
        Binding("tab", "scope", "scope", id="settings.scope", tooltip="All conversations, or this one", priority=True),
        Binding("ctrl+x", "reset", "reset", id="settings.reset", tooltip="Reset the setting", priority=True),
        Binding("ctrl+l", "reset_all", "reset all", id="settings.reset_all", tooltip="Reset all", priority=True),
        Binding("ctrl+s", "save", "save preset", id="settings.save", tooltip="Save all as a preset", priority=True),
        Binding("ctrl+k", "remove", "remove preset", id="settings.remove", tooltip="Remove the preset", priority=True),
        Binding("ctrl+r", "dismiss(True)", "reload", id="settings.load", tooltip="Reload the models", priority=True),
        Binding("ctrl+o", "move", "move the file", id="settings.move", tooltip="Start a new file", priority=True),
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
    hint = query_one(Hint)

    def __init__(
        self,
        live: LiveSettings,
        themes: Sequence[str] = (),
        on_change: Callable[[], object] = lambda: None,
        pair: PairInfo | None = None,
        *,
        can_load: bool = False,
    ) -> None:
        super().__init__()
        self._live = live
        self._on_change = on_change
        self._can_load = can_load
        self._edits = SettingEdits(live, themes, pair)
        self.settings = SettingList(self._edits.views())
        self._edited = self._before = ""
        """Name of the setting in the field, and its value before."""
        self._names_preset = False
        self._typed: dict[str, str] = {}
        """Texts of fields that were closed without saving."""
        self._waiting = self._edits.waiting
        self._asked = ""
        """Action that a second press of its key confirms."""

    def compose(self) -> ComposeResult:
        yield HeaderLine("Settings")
        yield Static(id="trouble")
        with Horizontal(id="search"):
            yield Static(MARK, classes="mark")
            yield SettingFilter("type to filter")
            yield Static(id="scope")
        yield self.settings
        yield Static(f"{RELOAD} takes effect after a reload", id="legend")
        yield Hint()
        yield KeyBar()

    def on_mount(self) -> None:
        self._show()

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
        view = self.settings.view
        if view is None or self._is_editing:
            return
        if view.options:
            self._step(1)
        elif refusal := self._edits.not_in_scope(view.setting):
            self.hint.say(refusal)
        else:
            await self._open_field(view)

    @on(SettingList.Changed)
    async def _on_changed(self) -> None:
        self._asked = ""
        view = self.settings.view
        # The message may arrive after the key that opened the field.
        if self._is_editing and (view is None or view.setting.name != self._edited):
            await self._close_field()
        self.refresh_bindings()

    @on(events.Click, "#scope")
    async def _on_scope_clicked(self) -> None:
        await self.run_action("scope")

    # The field

    @property
    def _is_editing(self) -> bool:
        return self.settings.editor is not None

    async def _open_field(self, view: SettingView) -> None:
        setting = view.setting
        self._edited, self._names_preset = setting.name, False
        text = self._typed.pop(setting.name, "")
        if text:
            self.hint.say(f"You typed this before; {key('settings.change', 'enter')} saves it.")
        self._before = setting.kind.show(view.value)
        text = text or self._before
        await self.settings.edit(TextInput(text) if isinstance(setting.kind, Text) else ValueInput(text))

    async def action_save(self) -> None:
        if not self._is_editing:
            self.settings.choose(PRESET)
            self._edited, self._names_preset = PRESET, True
            await self.settings.edit(ValueInput("", "name of the preset"))

    def _judge(self, text: str) -> tuple[Value, str]:
        """Return the typed value and why it is invalid; "" if it is valid."""
        view = self.settings.view
        if view is None:
            return None, "No setting is chosen."
        if self._names_preset:
            return text.strip(), self._edits.preset_problem(text)
        return self._edits.parse(view.setting, text)

    def _check(self, text: str) -> None:
        value, wrong = self._judge(text)
        view = self.settings.view
        self.settings.set_error(wrong or (self._edits.context_remark(view.setting, value) if view else ""))

    @on(Input.Changed, "ValueInput")
    def _on_typed(self, event: Input.Changed) -> None:
        self._check(event.value)

    @on(TextInput.Changed)
    def _on_written(self, event: TextInput.Changed) -> None:
        self._check(event.text_area.text)

    @on(Input.Submitted, "ValueInput")
    async def _on_submitted(self, event: Input.Submitted) -> None:
        # The message may lack the last characters of a quick typist.
        await self._submit(event.input.value)

    @on(TextInput.Submitted)
    async def _on_text(self, event: TextInput.Submitted) -> None:
        await self._submit(event.value)

    async def _submit(self, text: str) -> None:
        view, (value, wrong) = self.settings.view, self._judge(text)
        if wrong or view is None:
            self.settings.set_error(wrong)
            return
        await self.settings.close_field()
        message = self._edits.save_preset(text) if self._names_preset else self._edits.set(view.setting, value)
        self.filter_input.focus()
        self._after_change(message)

    async def _close_field(self) -> None:
        editor = self.settings.editor
        if isinstance(editor, TextInput) and editor.text.strip() and editor.text != self._before:
            self._typed[self._edited] = editor.text
        await self.settings.close_field()
        self.filter_input.focus()
        self.refresh_bindings()

    # Actions

    async def action_leave(self) -> None:
        if self._is_editing:
            await self._close_field()
        elif self._asked != "load" and (waiting := self._edits.waiting) and waiting != self._waiting:
            self._asked = "load"
            names = ", ".join(setting.name for setting in waiting)
            now, later = key("settings.change", "enter"), key("settings.leave", "esc")
            self.hint.ask(f"Reload the models for {names}? {now.capitalize()} now, {later} later")
        else:
            self.dismiss(False)

    def action_scope(self) -> None:
        self._edits.toggle_scope()
        self._show()

    def action_reset(self) -> None:
        if (view := self.settings.view) is not None:
            self._after_change(self._edits.reset(view.setting))

    def action_reset_all(self) -> None:
        if self._asked != "reset":
            self._asked = "reset"
            again = key("settings.reset_all", "ctrl+l")
            self.hint.ask(f"Reset all settings for all conversations? {again} again resets them")
            return
        self.hint.forget()
        self._after_change(self._edits.reset_all())

    def action_remove(self) -> None:
        preset = self._edits.own_preset
        if self._asked != "remove":
            self._asked = "remove"
            again = key("settings.remove", "ctrl+k")
            self.hint.ask(printable(f"Remove the preset {preset}? {again} again removes it"))
            return
        self._after_change(self._edits.remove_preset(preset))

    def action_move(self) -> None:
        try:
            away = self._live.move_file_away()
        except AppError as error:
            self.hint.say(printable(error.message))
        else:
            self._after_change(f"Moved the file to {printable(away)}.")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Hide or dim keys that would do nothing."""
        editing, view = self._is_editing, self.settings.view
        match action:
            case "move":
                return bool(self._live.content.unreadable)
            case "dismiss":
                return (self._can_load or bool(self._edits.waiting)) and not editing
            case "scope" | "save" | "reset_all":
                return not editing
            case "remove":
                at_presets = view is not None and view.setting.name == PRESET
                return at_presets and not editing and bool(self._edits.own_preset)
            case "reset":
                may = view is not None and view.origin in (Origin.FLAG, Origin.CONVERSATION, Origin.FILE)
                return False if editing else may or None
        return True

    @property
    def idle_keys(self) -> Collection[str]:
        return ("settings.change",) if self.settings.view is None else ()

    def _step(self, by: int) -> None:
        view = self.settings.view
        if view is None:
            return
        value = stepped(view, by)
        if value is None:
            self.hint.say(f"Press {key('settings.change', 'enter')} to change it.")
        else:
            self._set(view.setting, value[0])

    def _set(self, setting: Setting, value: Value) -> None:
        if refusal := self._edits.refusal(setting, value):
            self.hint.say(refusal)
        else:
            self._after_change(self._edits.set(setting, value))

    def _after_change(self, message: str) -> None:
        self.hint.say(message)
        self._asked = ""
        self._on_change()
        self._show()

    def _show(self) -> None:
        self.settings.show(self._edits.views())
        self.query_one("#scope", Static).update(Content.styled(f"for {self._edits.scope.value}", "$quiet"))
        problems, trouble = self._edits.problems(), self.query_one("#trouble", Static)
        trouble.update(Content("\n".join(problems)))
        trouble.display = bool(problems)
        self.refresh_bindings()
