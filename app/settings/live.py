"""The settings of one running program: every layer, and the changes to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum

from app.core.errors import UsageError
from app.core.printable import printable
from app.settings.checking import Problem, check, nested
from app.settings.file import Content, SettingsFile
from app.settings.kinds import Value
from app.settings.layers import BUILT_IN, Layer, Origin, Resolved, unknown_preset
from app.settings.model_file import Recommended
from app.settings.params import check_lengths, contradiction, sampling
from app.settings.table import BY_NAME, LENGTHS, NUMBERS, SETTINGS, Setting

_RELOADED = tuple(setting.name for setting in SETTINGS if setting.needs_reload)


class Scope(Enum):
    """Scope of a change."""

    ALL = "all conversations"
    CONVERSATION = "this conversation"


class LiveSettings:
    """The owner of the settings of a running program.

    A change for all conversations goes into the file; a `SettingsError` leaves everything unchanged. The last change
    wins: it removes the flag and the conversation's own value of the same setting.

    Args:
        file: The settings file; None keeps changes in memory.
        flags: Values of the command line.
        pair: Values of the pair; `switch_pair` replaces them.
        model: What the target's file recommends.

    Raises:
        UsageError: The flags contradict each other or the other layers.
    """

    def __init__(
        self,
        file: SettingsFile | None = None,
        flags: Layer | None = None,
        pair: Layer | None = None,
        model: Recommended | None = None,
    ) -> None:
        self.file = file or SettingsFile(None)
        self.content: Content = self.file.read()
        """The file as last read."""
        self.pair: Layer = pair or {}
        self.model = model or Recommended()
        self._flags: dict[str, Value] = dict(flags or {})
        self._conversation: dict[str, Value] = {}
        self._loaded: dict[str, Value] | None = None
        self._placement_error = ""
        self._check_flags()

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

    def resolved(self) -> Resolved:
        """Merge all layers."""
        return self._merge(self.presets.get(self.preset or "", {}))

    def _merge(self, preset: Layer) -> Resolved:
        layers = {
            Origin.FLAG: self._flags,
            Origin.CONVERSATION: self._conversation,
            Origin.PRESET: self._usable(preset),
            Origin.FILE: self._usable(self.content.values),
            Origin.PAIR: self.pair,
        }
        return Resolved({**layers, Origin.MODEL: self.model.under(Resolved(layers)).values})

    def _usable(self, layer: Layer) -> Layer:
        """Leave out a stored placement of models that cannot be used."""
        if not self._placement_error:
            return layer
        return {name: value for name, value in layer.items() if name not in _RELOADED}

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Return what is ignored of presets, draft lengths and the placement of models."""
        problems = []
        settings = self.resolved()
        name = settings["preset"]
        if name is not None and name not in self.presets:
            problems.append(Problem("preset", unknown_preset(str(name), self.presets).message))
        try:
            check_lengths(settings)
        except UsageError as error:
            problems.append(Problem("draft", f"draft: {error.message}"))
        if self._placement_error:
            text = f"model: {self._placement_error} The stored settings of models and memory are ignored."
            problems.append(Problem("model", text))
        return tuple(problems)

    def sentences(self) -> Sequence[str]:
        """Return what is ignored, as sentences."""
        if self.content.unreadable:
            return (f"{self.content.unreadable} Its settings are ignored, and Tandem does not write to it.",)
        of_file = [self.file.sentence(problem) for problem in self.content.problems]
        return (*of_file, *(printable(problem.text) for problem in self.problems))

    def _check_flags(self) -> None:
        """Raise UsageError for flags that cannot be used with the other layers."""
        settings = self.resolved()
        name = settings["preset"]
        if settings.origin("preset") is Origin.FLAG and name is not None and name not in self.presets:
            raise unknown_preset(str(name), self.presets)
        if any(settings.origin(name) is Origin.FLAG for name in LENGTHS):
            check_lengths(settings)
        sampling(settings)

    def switch_pair(self, pair: Layer, model: Recommended | None = None) -> None:
        """Replace the values of the pair and of its target's file."""
        self.pair, self.model = pair, model or Recommended()

    def given(self, flags: Layer, pair: Layer, model: Recommended | None = None) -> Resolved:
        """Return the settings with more flags, this pair and its target's file; nothing is changed.

        Raises:
            UsageError: The flags contradict the other layers.
        """
        trial = LiveSettings(None, None, pair, model)
        trial.content, trial._conversation = self.content, self._conversation
        trial._flags = {**self._flags, **flags}
        trial._check_flags()
        trial._placement_error = self._placement_error
        return trial.resolved()

    def give(self, flags: Layer) -> None:
        """Add flags, as if typed after the others.

        Raises:
            UsageError: They contradict the other layers; nothing has changed.
        """
        self.given(flags, self.pair, self.model)
        self._flags.update(flags)
        self._placement_error = ""

    # Loading

    def loading(self) -> None:
        """Remember the settings that the models are being loaded with."""
        now = self.resolved()
        self._loaded = {name: now[name] for name in (*_RELOADED, "draft.mode")}

    @property
    def waiting(self) -> tuple[Setting, ...]:
        """The settings that count only after the models are loaded again."""
        if self._loaded is None:
            return ()
        now, loaded = self.resolved(), self._loaded
        changed = [name for name in _RELOADED if now[name] != loaded[name]]
        # A loaded draft can be turned off; one that is not loaded must be loaded first.
        if loaded["draft.mode"] == "off" and now["draft.mode"] != "off":
            changed.append("draft.mode")
        return tuple(BY_NAME[name] for name in changed)

    def leave_placement_out(self, why: str) -> None:
        """Ignore what preset and file say about models and memory, until the next change."""
        self._placement_error = why

    # Changing

    def refusal(self, name: str, value: Value, scope: Scope = Scope.ALL) -> str:
        """Return why a value cannot be set beside the others; "" if it can."""
        if scope is Scope.CONVERSATION and not BY_NAME[name].in_conversation:
            return f"{name} applies to all conversations."
        if name == "preset" and value is not None and value not in self.presets:
            return unknown_preset(str(value), self.presets).message
        now = self.resolved()
        return contradiction(Resolved({Origin.FLAG: {name: value}, Origin.FILE: {n: now[n] for n in BY_NAME}}))

    def set(self, name: str, value: Value, scope: Scope = Scope.ALL) -> None:
        """Change a setting."""
        if scope is Scope.CONVERSATION:
            self._conversation[name] = value
        else:
            self.file.set(name, value)
            self._conversation.pop(name, None)
        # A mode also replaces the numbers that imply one.
        _drop(self._flags, (name, *NUMBERS) if name == "draft.mode" else (name,))
        self._changed()

    def set_own(self, name: str, value: Value) -> None:
        """Change a setting for this conversation; None removes the conversation's value."""
        if value is not None:
            self.set(name, value, Scope.CONVERSATION)
            return
        _drop(self._conversation, (name,))
        self._changed()

    def reset(self, name: str) -> None:
        """Remove the present value, so that the next layer counts; a mode implied by numbers goes with them."""
        now = self.resolved()
        names = now.meaning_fixed if name == "draft.mode" and now.meaning_fixed else (name,)
        match now.origin(name):
            case Origin.FLAG:
                _drop(self._flags, names)
            case Origin.CONVERSATION:
                _drop(self._conversation, names)
            case Origin.FILE:
                self.file.unset(*names)
        self._changed()

    def reset_all(self) -> None:
        """Remove all flags and values of the conversation and the file; presets and keys stay."""
        self.file.clear()
        self._flags, self._conversation = {}, {}
        self._changed()

    def save_preset(self, name: str) -> None:
        """Save what differs from pair, model file and defaults under a name."""
        now = self.resolved()
        own = {
            setting.name: now[setting.name]
            for setting in SETTINGS
            if setting.in_preset and now.origin(setting.name) not in (Origin.PAIR, Origin.MODEL, Origin.DEFAULT)
        }
        self.file.save_preset(name, own)
        self._changed()

    def _changed(self) -> None:
        self.content, self._placement_error = self.file.read(), ""

    # The conversation

    def enter(self, document: Mapping[str, object]) -> Sequence[Problem]:
        """Switch to a conversation; return what its stored settings say that is ignored."""
        values, problems = check(document, lambda setting: setting.in_conversation)
        self._conversation = values
        if (name := values.get("preset")) is not None and name not in self.presets:
            problems.append(Problem("preset", unknown_preset(str(values.pop("preset")), self.presets).message))
        self._changed()
        lengths = [problem for problem in self.problems if problem.name == "draft"]
        return [*problems, *(lengths if any(name in values for name in LENGTHS) else ())]

    @property
    def document(self) -> dict[str, object]:
        """The settings that the conversation stores."""
        return nested({name: BY_NAME[name].kind.write(value) for name, value in self._conversation.items()})


def _drop(layer: dict[str, Value], names: Iterable[str]) -> None:
    for name in names:
        layer.pop(name, None)
