"""The settings screen: what each setting does, its value and origin, and how to change it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.getters import query_one
from textual.widgets import Input, Static

from app.core.printable import printable
from app.core.regular_file import with_line_feeds
from app.models.pair_info import PairInfo
from app.settings.kinds import Name, Text
from app.settings.live import LiveSettings
from app.settings.setting import Setting
from app.ui.actions import bindings
from app.ui.base_screen import SubScreen
from app.ui.key_names import key
from app.ui.settings.edits import PRESET, SettingEdits, next_value
from app.ui.settings.setting_list import RELOAD, SettingList
from app.ui.widgets.inputs import FilterInput, SearchLine, TextEditor


class ValueEditor(TextEditor):
    """A value; typing replaces it, unless it is a text, which may have several lines."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("value.keep", "text.break_line")

    _is_text = False

    def begin(self, value: str, placeholder: str = "", *, is_text: bool = False) -> None:
        """Edit a value."""
        self._is_text, self.placeholder = is_text, placeholder
        with self.prevent(TextEditor.Changed):
            self.load_text(value)
        if is_text:
            self.move_cursor(self.document.end)
        else:
            self.select_all()
        self.screen.set_focus(self)

    def action_break_line(self) -> None:
        self.break_line()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self._is_text if action == "break_line" else True

    def on_paste(self, event: events.Paste) -> None:
        text = printable(with_line_feeds(event.text))
        event.text = text if self._is_text else " ".join(text.split())


class SettingsScreen(SubScreen[bool]):
    """See and change settings; the result is whether to reload the models.

    Args:
        can_load: Whether a reload is possible without a change, because the models or the draft failed to load.
    """

    HEADING = "Settings"
    AUTO_FOCUS = "FilterInput"
    CSS_PATH = "screen.tcss"
    BINDINGS: ClassVar[list[BindingType]] = bindings(
        "settings.leave", "settings.load", "settings.scope", "settings.reset", "settings.save"
    )

    filter_input = query_one(FilterInput)

    def __init__(
        self,
        live: LiveSettings,
        themes: Sequence[str] = (),
        on_change: Callable[[], object] = lambda: None,
        pair: PairInfo | None = None,
        query: str = "",
        *,
        can_load: bool = False,
    ) -> None:
        super().__init__()
        self._live = live
        self._query = query
        self._on_change = on_change
        self._can_load = can_load
        self._edits = SettingEdits(live, themes, pair)
        self.settings = SettingList(self._edits.views())
        self.editor = ValueEditor()
        self._editor_pane = Vertical(Static(id="edited"), self.editor, Static(id="error"), id="editor")
        self._editor_pane.display = False
        self._edited: Setting | None = None
        """The setting in the editor; None if it has the name of a new preset."""
        self._waiting = live.waiting
        self._chosen = ""
        """Name of the chosen setting."""
        self._asks_to_reload = False

    def compose_body(self) -> ComposeResult:
        yield SearchLine(
            FilterInput("type to filter", "settings.change", "settings.less", "settings.more"), Static(id="scope")
        )
        yield self.settings
        yield self._editor_pane
        yield Static(id="legend")

    def on_mount(self) -> None:
        self._show()
        self.filter_input.insert_text_at_cursor(self._query)

    @on(Input.Changed, "FilterInput")
    def _filter(self, event: Input.Changed) -> None:
        self.settings.filter(event.value)
        self._show_legend()

    def _show_legend(self) -> None:
        reloads = any(view.setting.needs_reload for view in self.settings.rows)
        self.query_one("#legend", Static).update(f"{RELOAD} takes effect after a reload" if reloads else "")

    @on(FilterInput.Pressed)
    def _press(self, event: FilterInput.Pressed) -> None:
        if event.key in ("left", "right"):
            self._step(-1 if event.key == "left" else 1)
        elif self._asks_to_reload:
            self.dismiss(True)
        else:
            self._take()

    @on(SettingList.Selected)
    def _take(self) -> None:
        view = self.settings.row
        if view is None or self._is_editing:
            return
        if view.options and not isinstance(view.setting.kind, Name):
            self._step(1)
        elif refusal := self._edits.not_in_scope(view.setting):
            self.hint.say(refusal)
        else:
            self._open_editor(": ".join(filter(None, (view.name, ", ".join(view.options)))), view.setting)
            self.editor.begin(view.setting.kind.show(view.value), is_text=isinstance(view.setting.kind, Text))

    @on(SettingList.Changed)
    def _on_changed(self) -> None:
        chosen = self.settings.row.name if self.settings.row is not None else ""
        if chosen != self._chosen:
            self._chosen, self._asks_to_reload = chosen, False
        # The message may arrive after the key that opened the editor.
        if self._edited is not None and chosen != self._edited.name:
            self._close_editor()

    @on(events.Click, "#scope")
    async def _on_scope_clicked(self) -> None:
        await self.run_action("scope")

    # The editor

    @property
    def _is_editing(self) -> bool:
        return self._editor_pane.display

    def _open_editor(self, label: str, edited: Setting | None) -> None:
        self._edited = edited
        self.query_one("#edited", Static).update(Content(label))
        self._show_error("")
        self._editor_pane.display = True

    def _close_editor(self) -> None:
        self._edited = None
        self.set_focus(self.filter_input)
        self._editor_pane.display = False
        self.refresh_bindings()

    def action_save(self) -> None:
        if not self._is_editing:
            self._open_editor(PRESET, None)
            self.editor.begin("", "name of the preset")

    def _show_error(self, text: str) -> None:
        self.query_one("#error", Static).update(Content(text))

    @on(ValueEditor.Changed)
    def _on_typed(self, event: ValueEditor.Changed) -> None:
        if self._is_editing:
            self._show_error(self._edits.parse(self._edited, event.text_area.text)[1])

    def action_save_value(self) -> None:
        self._save(self._edited, self.editor.text, self._show_error)

    def _save(self, setting: Setting | None, text: str, refuse: Callable[[str], None]) -> None:
        value, error = self._edits.parse(setting, text)
        if error:
            refuse(error)
            return
        if self._is_editing:
            self._close_editor()
        self._after_change(self._edits.set(setting, value) if setting else self._edits.save_preset(text))

    # Actions

    def action_leave(self) -> None:
        if self._is_editing:
            self._close_editor()
        elif not self._asks_to_reload and (waiting := self._live.waiting) and waiting != self._waiting:
            self._asks_to_reload = True
            names = ", ".join(setting.name for setting in waiting)
            now, later = key("settings.change"), key("settings.leave")
            self.hint.ask(f"Reload the models for {names}? {now.capitalize()} now, {later} later")
        else:
            self.dismiss(False)

    def action_scope(self) -> None:
        self._edits.toggle_scope()
        self._show()

    def action_reset(self) -> None:
        if (view := self.settings.row) is not None:
            self._after_change(self._edits.reset(view.setting))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Hide or dim keys that would do nothing."""
        editing, view = self._is_editing, self.settings.row
        match action:
            case "dismiss":
                return (self._can_load or bool(self._live.waiting)) and not editing
            case "scope" | "save":
                return not editing
            case "reset":
                return False if editing else (view is not None and self._edits.can_reset(view.setting)) or None
        return super().check_action(action, parameters)

    @property
    def idle_keys(self) -> Collection[str]:
        return ("settings.change",) if self.settings.row is None else ()

    def _step(self, by: int) -> None:
        view = self.settings.row
        if view is None:
            return
        if text := next_value(view, by):
            self._save(view.setting, text, self.hint.say)
        else:
            self.hint.say(f"Press {key('settings.change')} to change it.")

    def _after_change(self, message: str) -> None:
        self.hint.say(message)
        self._asks_to_reload = False
        self._on_change()
        self._show()

    def _show(self) -> None:
        self.settings.show(self._edits.views())
        self._show_legend()
        self.query_one("#scope", Static).update(Content.styled(f"for {self._edits.scope.value}", "$quiet"))
