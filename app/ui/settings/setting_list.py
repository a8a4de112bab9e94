"""The list of settings in groups, with details of the chosen setting."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from textual.content import Content

from app.core.printable import printable
from app.settings.layers import Origin
from app.settings.table import TABLES
from app.ui.settings.edits import SettingView
from app.ui.text import MARK, cell, cut
from app.ui.widgets.choice_list import ChoiceList

RELOAD = "\N{CLOCKWISE OPEN CIRCLE ARROW}"
"""Marks settings that take effect after a reload."""
_NAME_CELLS, _VALUE_CELLS, _ORIGIN_CELLS = 19, 28, 17
_GAP = "  "
_MIN_WIDTH_FOR_DESCRIPTIONS = 118
"""Width from which complete descriptions are shown."""
_MIN_VALUE_CELLS = 12
"""Width of a value that stays when its origin does not fit."""
_GROUP_COLORS = {"draft": "$draft", "model": "$target"}


class SettingList(ChoiceList[SettingView]):
    """A line per setting below the title of its group; only a filter shows rare settings."""

    details_indent = 5

    def __init__(self, views: Sequence[SettingView]) -> None:
        super().__init__()
        self._views = views
        self._words: list[str] = []

    def on_mount(self) -> None:
        self.filter("")

    def show(self, views: Sequence[SettingView]) -> None:
        self._views = views
        self._update(self.row.name if self.row is not None else "")

    def filter(self, text: str) -> None:
        """Show the settings that contain every word, including rare settings; without words, the common settings."""
        self._words = text.lower().split()
        self._update(self.row.name if self.row is not None and self._words else "")

    def lines(self, at: int, width: int) -> list[Content]:
        lines, table = super().lines(at, width), self.rows[at].setting.table
        is_last = at + 1 == len(self.rows) or self.rows[at + 1].setting.table != table
        n_folded = sum(view.is_rare for view in self._views)
        if is_last and table == "sampling" and n_folded and not self._words:
            more = f"   {n_folded} rarely used settings; type a name to find one"
            lines.append(Content.styled(more, "$quiet").truncate(width))
        return lines

    def above(self, at: int) -> list[Content]:
        table = self.rows[at].setting.table
        if at > 0 and self.rows[at - 1].setting.table == table:
            return []
        title = Content.styled(f" {TABLES[table]}", f"bold {_GROUP_COLORS.get(table, '$quiet')}")
        return [Content(), title] if table else [Content()]

    def line(self, at: int, width: int) -> Content:
        return _line(self.rows[at], width, chosen=at == self.index)

    def details(self, at: int, width: int) -> Iterator[Content]:
        return details(self.rows[at])

    def _update(self, chosen: str) -> None:
        words = self._words
        rows = [view for view in self._views if (_matches(view, words) if words else not view.is_rare)]
        names = [view.name for view in rows]
        self.show_rows(rows, names.index(chosen) if chosen in names else 0, "No matches.")


def _line(view: SettingView, width: int, *, chosen: bool) -> Content:
    setting = view.setting
    mark = f" {MARK} " if chosen else "   "
    label = f"{setting.key} {RELOAD}" if setting.needs_reload else setting.key
    name = Content.styled(f"{label:<{_NAME_CELLS}}", "bold" if chosen else "")
    is_changed = view.origin not in (Origin.DEFAULT, Origin.MODEL, Origin.PAIR)
    color = _GROUP_COLORS.get(setting.table, "$foreground") if is_changed else "$quiet"
    value = Content.styled(setting.in_one_line(view.value), color)
    origin = f"{'after reload, ' * view.waits}{view.origin.value}"
    if width >= _MIN_WIDTH_FOR_DESCRIPTIONS:
        before = Content.assemble(
            mark,
            name,
            _GAP,
            cell(cut(value, _VALUE_CELLS), _VALUE_CELLS),
            _GAP,
            (f"{origin:<{_ORIGIN_CELLS}}", "$quiet"),
        )
        room = width - before.cell_length - len(_GAP)
        text = setting.help if len(setting.help) <= room else setting.text
        line = Content.assemble(before, _GAP, cut(Content.styled("" if chosen else _capital(text), "$quiet"), room))
    else:
        room = width - len(mark) - _NAME_CELLS - 2 * len(_GAP) - 1
        if room - len(origin) < min(value.cell_length, _MIN_VALUE_CELLS):
            origin = ""
        room = max(0, room - len(origin))
        line = Content.assemble(mark, name, _GAP, cell(cut(value, room), room), _GAP, (origin, "$quiet"))
    return line.stylize("$quiet") if view.idle else line


def details(view: SettingView) -> Iterator[Content]:
    """Yield what a setting does, its values, and the origin of its value."""
    setting = view.setting
    yield Content(f"{_capital(setting.help)}.")
    if view.options:
        yield Content(_GAP).join(_option(option, view) for option in view.options)
    else:
        yield Content.styled(f"{_capital(setting.kind.allowed)}. Default: {setting.shown_default}.", "$quiet")
    for remark in view.remark.splitlines():
        yield Content(printable(remark))
    flag = f", {setting.flags[-1]}" if setting.flags else ""
    origin = "" if view.origin is Origin.DEFAULT else "from "
    yield Content.styled(f"{setting.name} in settings.toml{flag}; {origin}{view.origin.value}", "$quiet")


def _option(option: str, view: SettingView) -> Content:
    setting = view.setting
    meaning = f": {setting.unset}" if setting.unset else ""
    is_default = option == setting.kind.show(setting.default)
    name = printable(option) + (f" (default{meaning})" if is_default else "")
    return Content.styled(name, "bold $foreground" if option == setting.kind.show(view.value) else "$quiet")


def _matches(view: SettingView, words: Sequence[str]) -> bool:
    setting = view.setting
    text = " ".join((setting.name, setting.help, TABLES[setting.table], view.origin.value, *setting.flags)).lower()
    return all(word in text for word in words)


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"
