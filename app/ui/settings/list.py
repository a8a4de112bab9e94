"""The settings to choose from, in their groups."""

from __future__ import annotations

from collections.abc import Sequence

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Static

from app.settings.tree import TABLES
from app.ui.settings.inputs import TextInput, ValueInput
from app.ui.settings.line import SettingLine, Shown, details


class SettingDetails(Vertical):
    """What is below the chosen line: words about it and, while it is changed, the field with a sentence below it."""

    def compose(self) -> ComposeResult:
        yield Static(id="wrong")
        yield Static(id="about")

    def about(self, content: Content) -> None:
        self.query_one("#about", Static).update(content)

    def wrong(self, text: str) -> None:
        """Say why the value in the field cannot be taken; "" if it can."""
        wrong = self.query_one("#wrong", Static)
        wrong.update(Content(text))
        wrong.display = bool(text)

    async def edit(self, field: Widget) -> None:
        """Show a field to type into."""
        self.wrong("")
        await self.mount(field, before="#wrong")
        field.focus()

    async def settle(self) -> None:
        """Take the field away."""
        self.wrong("")
        await self.query("ValueInput, TextInput").remove()


class SettingList(VerticalScroll, can_focus=False):
    """A line a setting under the title of its group; the chosen one has its details below it."""

    class Changed(Message):
        """Another setting is the chosen one."""

    class Taken(Message):
        """The chosen line was clicked."""

    def __init__(self, shown: Sequence[Shown]) -> None:
        super().__init__()
        self._lines = {one.setting.name: SettingLine(one) for one in shown}
        self._lines[shown[0].setting.name].add_class("first")
        tables = dict.fromkeys(one.setting.table for one in shown)
        self._titles = {table: Static(TABLES[table], classes=f"title {table}") for table in tables}
        self._nothing = Static("Nothing is found.", classes="nothing")
        self._details = SettingDetails()
        self._chosen = shown[0].setting.name
        self._measured: Sequence[str] = ()

    def compose(self) -> ComposeResult:
        yield self._nothing
        for table, title in self._titles.items():
            yield title
            yield from (line for line in self._lines.values() if line.shown.setting.table == table)
        yield self._details

    def on_mount(self) -> None:
        self._titles[""].display = self._nothing.display = False
        self.choose(self._chosen)

    @property
    def shown(self) -> Shown | None:
        """The chosen setting; None if the filter leaves nothing."""
        line = self._lines[self._chosen]
        return line.shown if line.display else None

    @property
    def editor(self) -> Widget | None:
        """The field, while there is one."""
        return next(iter(self._details.query("ValueInput, TextInput")), None)

    def show(self, shown: Sequence[Shown], measured: Sequence[str]) -> None:
        """Show the settings as they stand."""
        self._measured = measured
        for one in shown:
            self._lines[one.setting.name].show(one)
        self._draw()

    def filter(self, text: str) -> None:
        """Show only the settings in which every word occurs."""
        words = text.lower().split()
        for line in self._lines.values():
            line.display = _matches(line.shown, words)
        for table, title in self._titles.items():
            title.display = bool(table) and any(
                self._lines[name].shown.setting.table == table for name in self._visible
            )
        self._nothing.display = not self._visible
        if self._chosen not in self._visible or not words:
            self.choose(next(iter(self._visible), self._chosen))

    def move(self, by: int) -> None:
        """Choose the setting so many lines below."""
        visible = self._visible
        if visible:
            at = visible.index(self._chosen) if self._chosen in visible else 0
            self.choose(visible[max(0, min(len(visible) - 1, at + by))])

    def choose(self, name: str) -> None:
        """Make this setting the chosen one."""
        self._chosen = name
        for known, line in self._lines.items():
            line.chosen = known == name
        self.move_child(self._details, after=self._lines[name])
        self._draw()
        self.post_message(self.Changed())
        self.call_after_refresh(self._bring_into_view)

    async def edit(self, text: str, *, several_lines: bool = False, wants: str = "") -> None:
        """Show a field with this text, or for what is wanted where there is none yet."""
        field: ValueInput | TextInput
        if several_lines:
            field = TextInput()
            field.load_text(text)
            field.move_cursor(field.document.end)
        else:
            field = ValueInput(text, wants)
        await self._details.edit(field)
        self.call_after_refresh(self._bring_into_view)

    def wrong(self, text: str) -> None:
        """Say below the field why its value cannot be taken; "" if it can."""
        self._details.wrong(text)

    async def settle(self) -> None:
        """Take the field away."""
        await self._details.settle()

    def on_resize(self) -> None:
        self.call_after_refresh(self._bring_into_view)

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

    def _bring_into_view(self) -> None:
        if self._details.is_attached:
            self.scroll_to_widget(self._details, animate=False, immediate=True)
            self.scroll_to_widget(self._lines[self._chosen], animate=False, immediate=True)

    def _draw(self) -> None:
        shown = self.shown
        self._details.display = shown is not None
        if shown is not None and self._details.is_mounted:
            self._details.about(details(shown, self._measured))
            self._details.set_class(self._ends_its_group(shown), "-last")

    def _ends_its_group(self, shown: Shown) -> bool:
        """Whether a title stands below the chosen line; it brings a blank line of its own."""
        visible = self._visible
        below = visible[visible.index(shown.setting.name) + 1 :]
        return bool(below) and self._lines[below[0]].shown.setting.table != shown.setting.table


def _matches(shown: Shown, words: Sequence[str]) -> bool:
    setting = shown.setting
    text = " ".join((setting.name, setting.text, TABLES[setting.table], shown.origin.value, *setting.flags)).lower()
    return all(word in text for word in words)
