"""The settings of a running program: all layers, and the changes to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from enum import Enum

from app.settings.checking import Problem, check, document
from app.settings.file import Content, SettingsFile
from app.settings.kinds import Value
from app.settings.layers import BUILT_IN, Layer, Origin, Resolved, unknown_preset
from app.settings.setting import Setting
from app.settings.table import BY_NAME, SETTINGS

_RELOAD_SETTINGS = tuple(setting.name for setting in SETTINGS if setting.needs_reload)


class Scope(Enum):
    """Scope of a change."""

    ALL = "all conversations"
    CONVERSATION = "this conversation"


class LiveSettings:
    """Owns the settings of a running program.

    A change for all conversations goes into the file; a `SettingsError` leaves everything unchanged. It removes the
    flag of the same setting; a conversation keeps its own value.

    Args:
        pair: Values of the pair; `switch_pair` replaces them.
        model: Values that the target's file recommends.

    Raises:
        UsageError: The flags name an unknown preset.
    """

    def __init__(
        self,
        file: SettingsFile,
        flags: Layer | None = None,
        pair: Layer | None = None,
        model: Layer | None = None,
    ) -> None:
        self.file = file
        self.content: Content = self.file.read()
        """The file as last read."""
        self.pair: Layer = pair or {}
        self.model = model or {}
        self._flags: dict[str, Value] = dict(flags or {})
        self._conversation: dict[str, Value] = {}
        self._loaded: Resolved | None = None
        if (name := self._flags.get("preset")) is not None and name not in self.presets:
            raise unknown_preset(str(name), self.presets)

    # Reading

    @property
    def presets(self) -> Mapping[str, Layer]:
        """All presets by name."""
        return {**BUILT_IN, **self.content.presets}

    @property
    def preset(self) -> str | None:
        """The active preset."""
        name = self._merge({})["preset"]
        return name if isinstance(name, str) and name in self.presets else None

    def resolved(self, conversation: Mapping[str, object] | None = None) -> Resolved:
        """Merge all layers, with the layer of another conversation if its document is given."""
        if conversation is not None:
            other = copy(self)
            other._conversation, _ = check(conversation, lambda setting: setting.in_conversation)
            return other.resolved()
        return self._merge(self.presets.get(self.preset or "", {}))

    def _merge(self, preset: Layer) -> Resolved:
        return Resolved(
            {
                # The settings of an answer, or of a server, stay as they are when these change.
                Origin.FLAG: dict(self._flags),
                Origin.CONVERSATION: dict(self._conversation),
                Origin.PRESET: preset,
                Origin.FILE: self.content.values,
                Origin.PAIR: self.pair,
                Origin.MODEL: self.model,
            }
        )

    def sentences(self) -> Sequence[str]:
        """Return a sentence for each part of the settings file that is ignored or changed."""
        if self.content.unreadable:
            return (f"{self.content.unreadable} Its settings are ignored, and Tandem does not write to it.",)
        return tuple(map(self.file.sentence, self.content.problems))

    def switch_pair(self, pair: Layer, model: Layer | None = None) -> None:
        """Replace the values of the pair and of its target's file."""
        self.pair, self.model = pair, model or {}

    def given(self, flags: Layer, pair: Layer, model: Layer | None = None) -> Resolved:
        """Return the settings with more flags, this pair and its target's file, without changing anything."""
        trial = copy(self)
        trial._flags, trial.pair, trial.model = {**self._flags, **flags}, pair, model or {}
        return trial.resolved()

    def give(self, flags: Layer) -> None:
        """Add flags, as if typed after the earlier flags."""
        self._flags.update(flags)

    # Loading

    def loading(self) -> None:
        """Remember the settings with which the models are being loaded."""
        self._loaded = self.resolved()

    @property
    def waiting(self) -> tuple[Setting, ...]:
        """The settings that take effect only after the models are loaded again."""
        if self._loaded is None:
            return ()
        now, loaded = self.resolved(), self._loaded
        changed = [name for name in _RELOAD_SETTINGS if now[name] != loaded[name]]
        # A loaded draft can be turned off; one that is not loaded must be loaded first.
        if loaded["draft.mode"] == "off" and now["draft.mode"] != "off":
            changed.append("draft.mode")
        return tuple(BY_NAME[name] for name in changed)

    # Changing

    def refusal(self, name: str, value: Value) -> str:
        """Return why a value cannot be set; "" if it can."""
        if name == "preset" and value is not None and value not in self.presets:
            return unknown_preset(str(value), self.presets).message
        return ""

    def set(self, name: str, value: Value, scope: Scope = Scope.ALL) -> None:
        """Change a setting."""
        if scope is Scope.CONVERSATION:
            self._conversation[name] = value
        else:
            self.file.set(name, value)
        self._flags.pop(name, None)
        self._changed()

    def set_own(self, name: str, value: Value) -> None:
        """Change a setting for this conversation; None removes the conversation's value."""
        if value is not None:
            self.set(name, value, Scope.CONVERSATION)
            return
        self._conversation.pop(name, None)
        self._changed()

    def can_reset(self, name: str, scope: Scope = Scope.ALL) -> bool:
        """Return whether a flag or this scope sets the value."""
        return name in self._flags or name in (self.content.values if scope is Scope.ALL else self._conversation)

    def reset(self, name: str, scope: Scope = Scope.ALL) -> None:
        """Remove the flag, or else the value in a scope; then the next layer counts."""
        if name in self._flags:
            del self._flags[name]
        elif scope is Scope.CONVERSATION:
            self._conversation.pop(name, None)
        else:
            self.file.unset(name)
        self._changed()

    def save_preset(self, name: str) -> None:
        """Save the values that differ from pair, model file and defaults under a name."""
        now = self.resolved()
        own = {
            setting.name: now[setting.name]
            for setting in SETTINGS
            if setting.in_preset and now.origin(setting.name) not in (Origin.PAIR, Origin.MODEL, Origin.DEFAULT)
        }
        self.file.save_preset(name, own)
        self._changed()

    def _changed(self) -> None:
        self.content = self.file.read()

    # The conversation

    def enter(self, document: Mapping[str, object]) -> Sequence[Problem]:
        """Switch to a conversation; return the ignored parts of its stored settings."""
        values, problems = check(document, lambda setting: setting.in_conversation)
        self._conversation = values
        if (name := values.get("preset")) is not None and name not in self.presets:
            problems.append(Problem("preset", unknown_preset(str(values.pop("preset")), self.presets).message))
        self._changed()
        return problems

    @property
    def document(self) -> dict[str, object]:
        """The settings that the conversation stores."""
        return document(self._conversation)
