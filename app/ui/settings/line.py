"""A setting as one line of a list, and what more there is to say about the chosen one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual import events
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from app.conversations.titles import in_brief
from app.core.printable import printable
from app.settings.kinds import Value
from app.settings.layers import Origin
from app.settings.tree import Setting, given
from app.ui.text import MARK, cut

_MARGIN = 3
_NAME = 19
_GAP = 2
_WIDE = 110
"""From this width on there is room to say what each does."""
_VALUE, _WHENCE = 28, 17
_FEWEST = 12
"""Cells that a value has before anything stands beside it."""
_RELOAD = "\N{CLOCKWISE OPEN CIRCLE ARROW}"
"""Behind what counts only when the models are loaded anew."""
_COLOURS = {"draft": "$draft", "model": "$target"}
"""What is set for one of the two models wears its colour."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A setting as it stands.

    Attributes:
        setting: Which one.
        value: What counts.
        origin: Where it comes from.
        below: What would count otherwise, if that is worth a word.
        idle: Whether it does not matter at the moment, or cannot be changed here.
        waits: Whether it counts only when the models are loaded anew.
        options: What can be chosen; empty for what is typed.
        because: The settings that mean this value, where it was not chosen itself.
        here: What is known of it with the pair that is loaded, as a sentence; "" for nothing.
    """

    setting: Setting
    value: Value
    origin: Origin
    below: tuple[Value, Origin] | None = None
    idle: bool = False
    waits: bool = False
    options: tuple[str, ...] = ()
    because: tuple[str, ...] = ()
    here: str = ""


class SettingLine(Widget):
    """One setting in one line.

    Args:
        shown: The setting.
    """

    chosen: reactive[bool] = reactive(False, toggle_class="-chosen")

    @dataclass
    class Clicked(Message):
        """The line was clicked."""

        setting: str

    def __init__(self, shown: Shown) -> None:
        super().__init__()
        self.shown = shown

    def show(self, shown: Shown) -> None:
        """Say something else, if it is something else."""
        if shown != self.shown:
            self.shown = shown
            self.refresh()

    def on_click(self, event: events.Click) -> None:
        event.stop()
        self.post_message(self.Clicked(self.shown.setting.name))

    def render(self) -> Content:
        shown, width = self.shown, self.size.width
        setting, gap = shown.setting, " " * _GAP
        mark = f" {MARK} " if self.chosen else " " * _MARGIN
        key = f"{setting.key} {_RELOAD}" if setting.needs_reload else setting.key
        name = Content.styled(f"{key:<{_NAME}}", "bold" if self.chosen else "")
        words = ["not loaded yet"] if shown.waits else []
        words += [shown.origin.value] if shown.origin is not Origin.DEFAULT else []
        value = Content(value_text(setting, shown.value))
        least, room = (0, _WHENCE) if width >= _WIDE else (value.cell_length, width - _MARGIN - _NAME - 2 * _GAP - 1)
        # Where it comes from is said below the chosen line too.
        while len(words) > 1 and least + len(gap.join(words)) > room:
            words.pop()
        if room - len(gap.join(words)) < min(least, _FEWEST):
            words.clear()
        whence = gap.join(words)
        if shown.origin in (Origin.DEFAULT, Origin.MODEL, Origin.PAIR):
            value = value.stylize("$quiet")
        else:
            value = value.stylize(_COLOURS.get(setting.table, "$foreground"))
        if width >= _WIDE:
            origin = Content.styled(f"{whence:<{_WHENCE}}", "$quiet")
            before = Content.assemble(mark, name, gap, _cell(value, _VALUE), gap, origin, gap)
            text = "" if self.chosen else in_brief(_capital(setting.text), width - before.cell_length)
            line = before + cut(Content.styled(text, "$quiet"), width - before.cell_length)
        else:
            line = Content.assemble(mark, name, gap, _cell(value, max(0, room - len(whence))), gap, (whence, "$quiet"))
        return line.stylize("$quiet") if shown.idle else line


def _cell(content: Content, cells: int) -> Content:
    content = cut(content, cells)
    return content.pad_right(max(0, cells - content.cell_length))


def value_text(setting: Setting, value: Value) -> str:
    """A value in one line."""
    return " ".join(printable(setting.said(value)).split())


def details(shown: Shown, measured: Sequence[str]) -> Content:
    """What it does, what it takes, where it comes from, and what was measured."""
    setting = shown.setting
    lines = [Content(f"{_capital(setting.text)}.")]
    if shown.options:
        default = setting.kind.show(setting.default)
        lines.append(Content("  ").join(_option(option, shown, default) for option in shown.options))
    else:
        lines.append(Content.styled(f"{_capital(setting.kind.allowed)}. Default: {setting.shown_default}.", "$quiet"))
    if shown.because:
        why = f"{value_text(setting, shown.value)}, because {given(shown.because)}"
        lines.append(Content(f"It is {why}; auto turns that back."))
    if shown.here:
        lines.append(Content(printable(shown.here)))
    flag = f", {setting.flags[-1]}" if setting.flags else ""
    lines.append(Content.styled(f"{setting.name} in settings.toml{flag}{_whence(shown)}", "$quiet"))
    if setting.needs_reload:
        lines.append(Content.styled(f"{_RELOAD} It counts when the models are loaded anew.", "$quiet"))
    if measured and setting.table == "draft" and not setting.needs_reload:
        lines += [Content.styled("Measured since the models were loaded:", "$quiet")]
        lines += [Content.styled(f"  {line}", "$quiet") for line in measured]
    return Content("\n").join(lines)


def _option(option: str, shown: Shown, default: str) -> Content:
    is_it = option == shown.setting.kind.show(shown.value)
    meaning = f": {shown.setting.unset}" if shown.setting.unset else ""
    name = printable(option) + (f" (default{meaning})" if option == default else "")
    return Content.styled(name, "bold $foreground" if is_it else "$quiet")


def _whence(shown: Shown) -> str:
    if shown.origin is Origin.DEFAULT:
        return "; the default"
    said = f"; from {_named(shown.origin)}"
    if shown.below is None:
        return said
    value, origin = shown.below
    whose = "" if origin is Origin.DEFAULT else f" of {_named(origin)}"
    return f"{said}, instead of {value_text(shown.setting, value)[:24]}{whose}"


def _named(origin: Origin) -> str:
    """An origin within a sentence."""
    is_name = origin in (Origin.CONVERSATION, Origin.FILE)
    return origin.value if is_name else f"the {origin.value}"


def _capital(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}"
