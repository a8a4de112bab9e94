"""Changing settings, and what is to be said of it."""

from __future__ import annotations

from collections.abc import Callable

from app.core.errors import AppError
from app.core.printable import printable
from app.models.context_limit import remark
from app.models.pair_info import PairInfo
from app.models.pairing.cells import rounding
from app.settings.kinds import Value
from app.settings.layers import Origin
from app.settings.live import LiveSettings, Scope
from app.settings.tree import Setting, given
from app.ui.key_names import key
from app.ui.settings.line import Shown, value_text
from app.ui.settings.rows import not_here, to_load

_LONGEST_NAME = 64
_LONGEST_VALUE = 24
"""Characters of a value that is said again once it counts."""


class Changing:
    """Changes settings for all conversations or for one. What a change returns is to be said, if it is not empty.

    Args:
        live: The settings.
        pair: What is loaded, or None.
    """

    def __init__(self, live: LiveSettings, pair: PairInfo | None = None) -> None:
        self._live = live
        self.pair = pair
        self.scope = Scope.ALL
        """What a change is for."""

    @property
    def to_load(self) -> tuple[Setting, ...]:
        """What counts only when the models are loaded anew."""
        return to_load(self._live, self.pair)

    def other_scope(self) -> None:
        """Change for this conversation instead of for all, or the other way round."""
        self.scope = Scope.CONVERSATION if self.scope is Scope.ALL else Scope.ALL

    def judge(self, shown: Shown, text: str) -> tuple[Value, str]:
        """What is typed as a value, and why it cannot be taken; "" if it can."""
        setting = shown.setting
        try:
            value = setting.kind.parse(text)
        except (ValueError, OverflowError):
            return None, f"It must be {setting.kind.allowed}."
        return value, self.refusal(setting, value)

    def judge_name(self, text: str) -> str:
        """Why a preset cannot be called so; "" if it can."""
        name = text.strip()
        good = 0 < len(name) <= _LONGEST_NAME and text.isprintable() and name.lower() != "none"
        return "" if good else "It must be a name, and not none."

    def refusal(self, setting: Setting, value: Value) -> str:
        """Why a setting cannot have a value; "" if it can."""
        return printable(not_here(setting, self.scope) or self._live.refusal(setting.name, value, self.scope))

    def remark(self, shown: Shown | None, value: Value) -> str:
        """What is to be known before the chosen setting is given a value that it may have; "" for nothing."""
        return self._remark(shown.setting, value) if shown is not None else ""

    def _remark(self, setting: Setting, value: Value) -> str:
        if setting.name != "model.ctx" or not isinstance(value, int) or self.pair is None:
            return ""
        return printable(remark(self.pair, value))

    def set(self, setting: Setting, value: Value) -> str:
        """Give a setting a value that is not refused."""
        was_fixed = bool(self._live.resolved().meaning_fixed)
        told = self._try(lambda: self._live.set(setting.name, value, self.scope))
        now = self._live.resolved()
        if not told and not was_fixed and setting.name in now.meaning_fixed:
            return f"Drafting is fixed for {self.scope.value} now; mode auto turns it back."
        if not told and now[setting.name] != value and now.origin(setting.name) is Origin.PRESET:
            return f"It is kept; the preset {self._live.preset} goes before it."
        if not told and setting.name == "model.ctx" and isinstance(value, int):
            return self._remark(setting, value) or rounding(value) or self._for_whom(setting)
        return told or self._for_whom(setting)

    def _for_whom(self, setting: Setting) -> str:
        """That a setting has changed, and for whom; "" where it can only be for all."""
        if not setting.in_conversation:
            return ""
        value = value_text(setting, self._live.resolved()[setting.name])
        other = f"; {key('settings.scope', 'tab')}: for this one only" if self.scope is Scope.ALL else ""
        is_now = value if 0 < len(value) <= _LONGEST_VALUE else "changed"
        return f"{setting.key} is {is_now} for {self.scope.value}{other}."

    def reset(self, setting: Setting) -> str:
        """Let what is under its value count."""
        told = self._try(lambda: self._live.reset(setting.name))
        now = self._live.resolved()
        if not told and setting.name == "draft.mode" and now.meaning_fixed:
            return f"mode is fixed, because {given(now.meaning_fixed)}."
        value = value_text(setting, now[setting.name])
        return told or (f"{setting.key} is {value} again." if 0 < len(value) <= _LONGEST_VALUE else "")

    def reset_all(self) -> str:
        """Let nothing count but pair and defaults."""
        return self._try(self._live.reset_all)

    def save_preset(self, text: str) -> str:
        """Keep the settings as they are under a name that can be taken."""
        name = text.strip()
        return self._try(lambda: self._live.save_preset(name)) or f"The preset {printable(name)} is kept."

    @property
    def own_preset(self) -> str:
        """The preset in force, if it is one of the user's, which can be removed; else ""."""
        return name if (name := self._live.preset or "") in self._live.content.presets else ""

    def remove_preset(self, name: str) -> str:
        """Forget one of the user's presets."""
        told = self._try(lambda: self._live.remove_preset(name))
        again = f"; {printable(name)} is the one that comes with Tandem again" if name in self._live.presets else ""
        return told or f"The preset {printable(name)} is removed{again}."

    def _try(self, change: Callable[[], None]) -> str:
        try:
            change()
        except AppError as error:
            return printable(error.sentences)
        return ""
