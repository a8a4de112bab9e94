"""Typing a value, or the name of a preset, below the chosen setting."""

from __future__ import annotations

from collections.abc import MutableMapping

from app.settings.kinds import Text, Value
from app.ui.settings.changing import Changing
from app.ui.settings.inputs import TextInput
from app.ui.settings.line import Shown
from app.ui.settings.list import SettingList
from app.ui.settings.rows import PRESET
from app.ui.settings.unfinished import Unfinished


class Field:
    """The field while there is one: whose it is, what may be typed into it, and what comes of that.

    Args:
        settings: The list that shows it.
        changing: Judges and takes what is typed.
        unfinished: The texts that were left before they were taken; they are gone on with.
    """

    def __init__(self, settings: SettingList, changing: Changing, unfinished: Unfinished) -> None:
        self._settings = settings
        self._changing = changing
        self._unfinished = unfinished
        self._setting = self._before = ""
        self._names_preset = False

    @property
    def is_open(self) -> bool:
        return self._settings.editor is not None

    @property
    def is_left(self) -> bool:
        """Whether it is open, and another setting is the chosen one."""
        shown = self._settings.shown
        return self.is_open and (shown is None or shown.setting.name != self._setting)

    async def open(self, shown: Shown) -> str:
        """Let a setting's value be typed; returns what is to be said of what stands there, "" for nothing."""
        kind = shown.setting.kind
        self._setting, self._names_preset = shown.setting.name, False
        self._before = kind.show(shown.value)
        unfinished = self._waiting.get(self._setting, "")
        await self._settings.edit(unfinished or self._before, several_lines=isinstance(kind, Text))
        return "This was typed and not kept yet; without a word it is forgotten." if unfinished else ""

    async def open_for_preset(self) -> None:
        """Let the name of a preset be typed that keeps the settings as they are."""
        self._settings.choose(PRESET)
        self._setting, self._names_preset = PRESET, True
        await self._settings.edit("", wants="a name for the settings as they are now")

    def look(self, text: str) -> None:
        """Say below it what is to be known of what is typed so far."""
        value, wrong = self._judge(text)
        self._settings.wrong(wrong or self._changing.remark(self._settings.shown, value))

    async def take(self, text: str) -> str | None:
        """Take what is typed and close; returns what is to be said of it, None where it cannot be taken."""
        shown = self._settings.shown
        value, wrong = self._judge(text)
        if wrong or shown is None:
            self._settings.wrong(wrong)
            return None
        self._waiting.pop(self._setting, None)
        await self._settings.settle()
        return self._changing.save_preset(text) if self._names_preset else self._changing.set(shown.setting, value)

    async def close(self) -> str:
        """Take it away; a text waits to be gone on with. Returns what is to be said of that, "" for nothing."""
        waits = self.put_down()
        await self._settings.settle()
        return "What is typed waits here, and does not count yet." if waits else ""

    def put_down(self) -> bool:
        """Let a text that is being typed wait to be gone on with; returns whether there is one."""
        if not self.is_open:
            return False
        text = editor.text if isinstance(editor := self._settings.editor, TextInput) else ""
        self._waiting.pop(self._setting, None)
        waits = bool(text.strip()) and text != self._before
        if waits:
            self._waiting[self._setting] = text
        return waits

    @property
    def _waiting(self) -> MutableMapping[str, str]:
        return self._unfinished.of(self._changing.scope)

    def _judge(self, text: str) -> tuple[Value, str]:
        """What is typed as a value, and why it cannot be taken; "" if it can."""
        shown = self._settings.shown
        if shown is None:
            return None, "Nothing is chosen."
        if self._names_preset:
            return text.strip(), self._changing.judge_name(text)
        return self._changing.judge(shown, text)
