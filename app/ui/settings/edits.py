"""Show and change settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.core.errors import AppError
from app.core.printable import printable
from app.models.pair_info import PairInfo, context_line, context_remark, rounding
from app.settings.checking import in_one_line, is_preset_name
from app.settings.kinds import Choice, Name, Number, Switch, Value
from app.settings.layers import Origin, Resolved, ThinkingSupport, thinking
from app.settings.live import LiveSettings, Scope
from app.settings.setting import Setting
from app.settings.table import SETTINGS
from app.ui.key_names import for_chat, key

PRESET = "preset"
_COMMON_SAMPLING = ("temp", "top_k", "top_p", "min_p", "seed")


@dataclass(frozen=True, slots=True)
class SettingView:
    """A setting on the screen.

    Attributes:
        idle: Whether it has no effect now, or cannot be changed in this scope.
        options: Values to choose from; empty for a typed value.
        remark: Why it has this value or no effect, or the content of its options, in lines.
    """

    setting: Setting
    value: Value
    origin: Origin
    idle: bool = False
    waits: bool = False
    options: tuple[str, ...] = ()
    remark: str = ""

    @property
    def name(self) -> str:
        return self.setting.name

    @property
    def is_rare(self) -> bool:
        """Return whether it is folded: a rarely used sampling setting with its default."""
        is_sampling = self.setting.table == "sampling" and self.setting.key not in _COMMON_SAMPLING
        return is_sampling and self.origin is Origin.DEFAULT


class SettingEdits:
    """Settings as views, and changes to them for all conversations or for one.

    A change returns a message, which may be empty.
    """

    def __init__(self, live: LiveSettings, themes: Sequence[str] = (), pair: PairInfo | None = None) -> None:
        self._live = live
        self._themes = themes
        self._pair = pair
        self.scope = Scope.ALL

    def views(self) -> list[SettingView]:
        """Return every setting."""
        now = self._now
        return [self._view(setting, now) for setting in SETTINGS]

    @property
    def _now(self) -> Resolved:
        return self._live.resolved({} if self.scope is Scope.ALL else None)

    def _view(self, setting: Setting, now: Resolved) -> SettingView:
        origin, ignored = now.origin(setting.name), self._why_ignored(setting, now)
        about = ignored
        if self._pair is not None and setting.name == "model.ctx":
            about = context_line(self._pair)
        if setting.name == PRESET:
            about = "\n".join(f"{name}: {in_one_line(of) or 'no settings'}" for name, of in self._live.presets.items())
        own = self._live.resolved()
        if self.scope is Scope.ALL and own.origin(setting.name) is Origin.CONVERSATION:
            about = f"{about}\nThis conversation has its own value: {setting.display(own[setting.name])}".lstrip()
        return SettingView(
            setting,
            now[setting.name],
            origin,
            idle=bool(_is_idle(setting, now) or self.not_in_scope(setting) or ignored),
            waits=setting in self._live.waiting,
            options=self._options(setting),
            remark=about,
        )

    def toggle_scope(self) -> None:
        self.scope = Scope.CONVERSATION if self.scope is Scope.ALL else Scope.ALL

    def not_in_scope(self, setting: Setting) -> str | None:
        """Return why a setting cannot be changed for one conversation, if so."""
        if self.scope is Scope.CONVERSATION and not setting.in_conversation:
            return f"{setting.name} applies to all conversations; {key('settings.scope')} changes the scope."
        return None

    def parse(self, setting: Setting | None, text: str) -> tuple[Value, str]:
        """Return a typed value, or the name of a new preset without a setting, and why it is invalid, or ""."""
        if setting is None:
            return text.strip(), "" if is_preset_name(text) else "Choose a name other than none."
        try:
            value = setting.kind.parse(text)
        except (ValueError, OverflowError):
            return None, f"Expected {setting.kind.allowed}."
        return value, printable(self.not_in_scope(setting) or self._live.refusal(setting.name, value))

    def set(self, setting: Setting, value: Value) -> str:
        """Set a valid value."""
        if error := self._try(lambda: self._live.set(setting.name, value, self.scope)):
            return error
        if setting.mode == "fixed" and self._now["draft.mode"] != "fixed":
            return f"{setting.key} takes effect with mode fixed."
        if self._live.resolved()[setting.name] != value:
            return f"Saved, but {self._in_force(setting)} counts here."
        if setting.name == "model.ctx" and isinstance(value, int):
            remark = context_remark(self._pair, value) if self._pair is not None else None
            return printable(remark or rounding(value) or "")
        return ""

    def can_reset(self, setting: Setting) -> bool:
        """Return whether the setting has a changed value in this scope."""
        return self._live.can_reset(setting.name, self.scope)

    def reset(self, setting: Setting) -> str:
        """Remove the changed value, and say which value counts now."""
        error = self._try(lambda: self._live.reset(setting.name, self.scope))
        return error or f"Reset: {self._in_force(setting)} counts now."

    def _in_force(self, setting: Setting) -> str:
        now = self._live.resolved()
        origin, value = now.origin(setting.name), setting.in_one_line(now[setting.name])
        return printable(f"{value} ({origin.value}{f' {now[PRESET]}' if origin is Origin.PRESET else ''})")

    def save_preset(self, text: str) -> str:
        """Save the settings as a preset."""
        name = text.strip()
        return self._try(lambda: self._live.save_preset(name)) or f"Saved the preset {printable(name)}."

    def _why_ignored(self, setting: Setting, now: Resolved) -> str:
        support = self._pair.thinking_support if self._pair is not None else ThinkingSupport()
        reason = support.why_ignored(setting.name, thinking(now))
        return f"The loaded model {reason}." if reason else ""

    def _options(self, setting: Setting) -> tuple[str, ...]:
        match setting.kind:
            case Choice(options):
                return options
            case Switch():
                return ("on", "off")
            case Name(word=word):
                names = {PRESET: list(self._live.presets), "appearance.theme": self._themes}.get(setting.name, ())
                return (*([word] if word else []), *names)
        return ()

    def _try(self, change: Callable[[], None]) -> str:
        try:
            change()
        except AppError as error:
            return for_chat(error.sentences)
        return ""


def next_value(view: SettingView, by: int) -> str | None:
    """Return the next value in typed form, if the setting has steps."""
    kind = view.setting.kind
    if view.options:
        now = kind.show(view.value)
        at = view.options.index(now) + by if now in view.options else 0
        return view.options[at % len(view.options)]
    if isinstance(kind, Number) and isinstance(view.value, int | float):
        value = max(kind.low, min(kind.high, round(view.value + by * kind.step, 6)))
        return kind.show(int(value) if kind.whole else value)
    return None


def _is_idle(setting: Setting, now: Resolved) -> bool:
    if setting.name == "answer.reasoning_effort":
        return bool(now["answer.thinking"] == "off")
    mode: str = now["draft.mode"]
    if setting.mode is not None:
        return mode != setting.mode
    return mode == "off" and setting.table == "draft" and setting.key != "mode"
