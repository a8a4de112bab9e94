"""The list of settings in groups, with details of the chosen one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Static

from app.conversations.titles import in_brief
from app.core.printable import printable
from app.settings.layers import Origin
from app.settings.table import TABLES, given
from app.ui.settings.edits import SettingView, value_text
from app.ui.text import MARK, cut

RELOAD = "\N{CLOCKWISE OPEN CIRCLE ARROW}"
"""Marks settings that take effect after a reload."""
_NAME, _VALUE, _ORIGIN = 19, 28, 17
_GAP = "  "
_WIDE = 110
"""Width from which on descriptions are shown."""
_FEWEST = 12
"""Cells of a value that stay when its origin does not fit."""
_COLORS = {"draft": "$draft", "model": "$target"}


class SettingLine(Widget):
    """One setting in one line."""

    chosen: reactive[bool] = reactive(False, toggle_class="-chosen")

    @dataclass
    class Clicked(Message):
        setting: str

    def __init__(self, view: SettingView) -> None:
        super().__init__()
        self.view = view

    def show(self, view: SettingView) -> None:
        if view != self.view:
            self.view = view
            self.refresh()

    def on_click(self, event: events.Click) -> None:
        event.stop()
        self.post_message(self.Clicked(self.view.setting.name))

    def render(self) -> Content:
        view, width = self.view, self.size.width
        setting = view.setting
        mark = f" {MARK} " if self.chosen else "   "
        label = f"{setting.key} {RELOAD}" if setting.needs_reload else setting.key
        name = Content.styled(f"{label:<{_NAME}}", "bold" if self.chosen else "")
        value = Content(value_text(setting, view.value))
        origin = f"{'after reload, ' * view.waits}{view.origin.value}"
        if view.origin in (Origin.DEFAULT, Origin.MODEL, Origin.PAIR):
            value = value.stylize("$quiet")
        else:
            value = value.stylize(_COLORS.get(setting.table, "$foreground"))
        if width >= _WIDE:
            before = Content.assemble(mark, name, _GAP, _cell(value, _VALUE), _GAP, (f"{origin:<{_ORIGIN}}", "$quiet"))
            room = width - before.cell_length - len(_GAP)
            text = "" if self.chosen else in_brief(_capital(setting.text), room)
            line = Content.assemble(before, _GAP, cut(Content.styled(text, "$quiet"), room))
        else:
            room = width - len(mark) - _NAME - 2 * len(_GAP) - 1
            if room - len(origin) < min(value.cell_length, _FEWEST):
                origin = ""
            line = Content.assemble(
                mark, name, _GAP, _cell(value, max(0, room - len(origin))), _GAP, (origin, "$quiet")
            )
        return line.stylize("$quiet") if view.idle else line


class SettingDetails(Vertical):
    """Details below the chosen line and, while it is edited, a field with its error."""

    def compose(self) -> ComposeResult:
        yield Static(id="wrong")
        yield Static(id="about")

    def set_error(self, text: str) -> None:
        wrong = self.query_one("#wrong", Static)
        wrong.update(Content(text))
        wrong.display = bool(text)

    async def edit(self, field: Widget) -> None:
        self.set_error("")
        await self.mount(field, before="#wrong")
        field.focus()

    async def close_field(self) -> None:
        self.set_error("")
        await self.query("ValueInput, TextInput").remove()


class SettingList(VerticalScroll, can_focus=False):
    """A line per setting below the title of its group; rare ones are folded until `unfold`."""

    class Changed(Message):
        """Another setting was chosen."""

    class Taken(Message):
        """The chosen line was clicked."""

    def __init__(self, views: Sequence[SettingView]) -> None:
        super().__init__()
        self._lines = {view.setting.name: SettingLine(view) for view in views}
        self._chosen = views[0].setting.name
        self._lines[self._chosen].add_class("first")
        tables = dict.fromkeys(view.setting.table for view in views)
        self._titles = {table: Static(TABLES[table], classes=f"title {table}") for table in tables}
        self._more = Static("   type to find rarely used settings", classes="more")
        self._nothing = Static("No matches.", classes="nothing")
        self._details = SettingDetails()
        self._words: list[str] = []

    def compose(self) -> ComposeResult:
        yield self._nothing
        for table, title in self._titles.items():
            yield title
            yield from (line for line in self._lines.values() if line.view.setting.table == table)
            if table == "sampling":
                yield self._more
        yield self._details

    def on_mount(self) -> None:
        self.filter("")

    @property
    def view(self) -> SettingView | None:
        """The chosen setting; None if the filter matches nothing."""
        line = self._lines[self._chosen]
        return line.view if line.display else None

    @property
    def editor(self) -> Widget | None:
        """The field of the edited setting."""
        return next(iter(self._details.query("ValueInput, TextInput")), None)

    def show(self, views: Sequence[SettingView]) -> None:
        for view in views:
            self._lines[view.setting.name].show(view)
        self._draw()

    def filter(self, text: str) -> None:
        """Show the settings that contain every word, rare ones included; without words the common ones."""
        self._words = text.lower().split()
        for line in self._lines.values():
            line.display = _matches(line.view, self._words) if self._words else not line.view.is_rare
        for table, title in self._titles.items():
            title.display = bool(table) and any(self._lines[name].view.setting.table == table for name in self._visible)
        folded = sum(line.view.is_rare for line in self._lines.values())
        self._more.update(f"   {folded} rarely used settings; type a name to find one")
        self._more.display = not self._words and folded > 0
        self._nothing.display = not self._visible
        if self._chosen not in self._visible or not self._words:
            self.choose(next(iter(self._visible), self._chosen))

    def move(self, by: int) -> None:
        """Choose the setting `by` lines below."""
        if visible := self._visible:
            at = visible.index(self._chosen) if self._chosen in visible else 0
            self.choose(visible[max(0, min(len(visible) - 1, at + by))])

    def choose(self, name: str) -> None:
        self._chosen = name
        for known, line in self._lines.items():
            line.chosen = known == name
        self.move_child(self._details, after=self._lines[name])
        self._draw()
        self.post_message(self.Changed())
        self.call_after_refresh(self._scroll_to_chosen)

    async def edit(self, field: Widget) -> None:
        """Show a field below the chosen line."""
        await self._details.edit(field)
        self.call_after_refresh(self._scroll_to_chosen)

    def set_error(self, text: str) -> None:
        """Show below the field why its value is invalid; "" if it is valid."""
        self._details.set_error(text)

    async def close_field(self) -> None:
        await self._details.close_field()

    def on_resize(self) -> None:
        self.call_after_refresh(self._scroll_to_chosen)

    @on(SettingLine.Clicked)
    def _click(self, event: SettingLine.Clicked) -> None:
        event.stop()
        if event.setting == self._chosen:
            self.post_message(self.Taken())
        else:
            self.choose(event.setting)

    @property
    def _visible(self) -> list[str]:
        return [name for name, line in self._lines.items() if line.display]

    def _scroll_to_chosen(self) -> None:
        if self._details.is_attached:
            self.scroll_to_widget(self._details, animate=False, immediate=True)
            self.scroll_to_widget(self._lines[self._chosen], animate=False, immediate=True)

    def _draw(self) -> None:
        view = self.view
        self._details.display = view is not None
        if view is not None and self._details.is_mounted:
            self._details.query_one("#about", Static).update(details(view))
            self._details.set_class(self._ends_its_group(view), "-last")

    def _ends_its_group(self, view: SettingView) -> bool:
        """Return whether a title, which has a blank line above, follows the chosen line."""
        visible = self._visible
        below = visible[visible.index(view.setting.name) + 1 :]
        return bool(below) and self._lines[below[0]].view.setting.table != view.setting.table


def details(view: SettingView) -> Content:
    """Return what a setting does, its values, and where its value comes from."""
    setting = view.setting
    lines = [Content(f"{_capital(setting.text)}.")]
    if view.options:
        lines.append(Content(_GAP).join(_option(option, view) for option in view.options))
    else:
        lines.append(Content.styled(f"{_capital(setting.kind.allowed)}. Default: {setting.shown_default}.", "$quiet"))
    if view.because:
        value = value_text(setting, view.value)
        lines.append(Content(f"{_capital(value)}, because {given(view.because)}; auto undoes that."))
    if view.here:
        lines.append(Content(printable(view.here)))
    flag = f", {setting.flags[-1]}" if setting.flags else ""
    lines.append(Content.styled(f"{setting.name} in settings.toml{flag}; {_origin(view)}", "$quiet"))
    return Content("\n").join(lines)


def _option(option: str, view: SettingView) -> Content:
    setting = view.setting
    meaning = f": {setting.unset}" if setting.unset else ""
    is_default = option == setting.kind.show(setting.default)
    name = printable(option) + (f" (default{meaning})" if is_default else "")
    return Content.styled(name, "bold $foreground" if option == setting.kind.show(view.value) else "$quiet")


def _origin(view: SettingView) -> str:
    if view.origin is Origin.DEFAULT:
        return "default"
    if view.below is None:
        return f"from {_named(view.origin)}"
    value, origin = view.below
    whose = "" if origin is Origin.DEFAULT else f" of {_named(origin)}"
    return f"from {_named(view.origin)}, instead of {value_text(view.setting, value)[:24]}{whose}"


def _named(origin: Origin) -> str:
    is_name = origin in (Origin.CONVERSATION, Origin.FILE)
    return origin.value if is_name else f"the {origin.value}"


def _matches(view: SettingView, words: Sequence[str]) -> bool:
    setting = view.setting
    text = " ".join((setting.name, setting.text, TABLES[setting.table], view.origin.value, *setting.flags)).lower()
    return all(word in text for word in words)


def _cell(content: Content, cells: int) -> Content:
    content = cut(content, cells)
    return content.pad_right(max(0, cells - content.cell_length))


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"
