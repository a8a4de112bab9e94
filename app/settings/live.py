"""The settings of one running program: every layer, what they add up to, and how they are changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from app.core.errors import UsageError
from app.core.printable import printable
from app.settings.checking import Problem, check, nested
from app.settings.file import Content, SettingsFile
from app.settings.flag_layer import FlagLayer
from app.settings.kinds import Value
from app.settings.layers import BUILT_IN, Layer, Origin, Resolved, unknown_preset
from app.settings.model_file import Recommended
from app.settings.params import contradiction, drafting, sampling
from app.settings.shared import SharedSettings
from app.settings.table import BY_NAME, LENGTHS, SETTINGS, Setting

_RELOADED = tuple(setting.name for setting in SETTINGS if setting.needs_reload)


class Scope(Enum):
    """What a change is for."""

    ALL = "all conversations"
    CONVERSATION = "this conversation"


class LiveSettings:
    """The one home of the settings.

    A change that is for all goes into the file, and the flag or the conversation that said otherwise gives way: what
    was changed last is meant.

    Args:
        file: The settings file; None keeps changes for this program only.
        flags: What the command line says.
        pair: What the pair says; to be set anew with each pair.
        model: What the target's file recommends; likewise.
    """

    def __init__(
        self,
        file: SettingsFile | None = None,
        flags: Layer | None = None,
        pair: Layer | None = None,
        model: Recommended | None = None,
    ) -> None:
        self.file = file
        self.pair: Layer = pair or {}
        self.model = model or Recommended()
        self.problems: tuple[Problem, ...] = ()
        """What does not count of the conversation, or of the choice of a preset."""
        self.given_way: tuple[Problem, ...] = ()
        """The flags that the last change has ended, for they cannot be meant with it."""
        self._flags = FlagLayer(flags or {})
        self._conversation: dict[str, Value] = {}
        self._shared = SharedSettings(file)
        self._loaded: dict[str, Value] | None = None
        self._ignored: set[str] = set()
        self._insist()
        self._weighed: Sequence[Layer] | None = self._lengths()
        """The numbers that the flags were held against last; None where those that are there are newer."""

    # What counts

    @property
    def content(self) -> Content:
        """What the file said when it was last looked at."""
        return self._shared.content

    @property
    def presets(self) -> Mapping[str, Layer]:
        """All presets by name."""
        return {**BUILT_IN, **self.content.presets}

    @property
    def preset(self) -> str | None:
        """The preset that is in force."""
        name = self._resolve({})["preset"]
        return name if isinstance(name, str) and name in self.presets else None

    def resolved(self) -> Resolved:
        """All settings as they count."""
        return self._resolve(self.presets.get(self.preset or "", {}))

    def _resolve(self, preset: Layer, flags: Layer | None = None) -> Resolved:
        asked = {
            Origin.FLAG: self._flags.layer if flags is None else flags,
            Origin.CONVERSATION: self._counting(self._conversation),
            Origin.PRESET: self._counting(preset),
            Origin.FILE: self._counting(self.content.values),
            Origin.PAIR: self.pair,
        }
        return Resolved({**asked, Origin.MODEL: self.model.under(Resolved(asked)).values})

    def _counting(self, layer: Layer) -> Layer:
        return {name: value for name, value in layer.items() if name not in self._ignored}

    def _lengths(self) -> Sequence[Layer]:
        """What conversation, preset and file say of how long fixed drafts are, whether or not it counts."""
        said = (self._conversation, self.presets.get(self.preset or "", {}), self.content.values)
        return [{name: layer[name] for name in LENGTHS if name in layer} for layer in said]

    def _weigh(self, *, newer: bool = False) -> _Contradiction | None:
        """Leave a preset that is not there, and numbers that contradict each other, out.

        Args:
            newer: Whether the numbers came after the flags; those that only a flag contradicts are not left out.

        Returns:
            What of the flags cannot be meant then, or None.
        """
        self._ignored, self.problems, self.given_way = set(), (), ()
        name, settings = self._resolve({})["preset"], self._resolve({})
        if name is not None and name not in self.presets:
            error = unknown_preset(str(name), self.presets)
            if settings.origin("preset") is Origin.FLAG:
                return _Contradiction(("preset",), error)
            self.problems = (Problem("preset", error.message),)
        try:
            _check(self.resolved())
        except UsageError as error:
            if newer and self._is_meant_without_flags():
                return _Contradiction(LENGTHS, error)
            self._ignored = set(LENGTHS)
            self.problems += (Problem("draft", f"draft: {error.message}"),)
        try:
            _check(self.resolved())
        except UsageError as error:
            return _Contradiction(LENGTHS, error)
        return None

    def _is_meant_without_flags(self) -> bool:
        others = {name: value for name, value in self._flags.layer.items() if name not in LENGTHS}
        try:
            _check(self._resolve(self.presets.get(self.preset or "", {}), others))
        except UsageError:
            return False
        return True

    def _insist(self) -> None:
        """Raise UsageError for flags that cannot be meant: whoever has just given them is there to hear it."""
        if (wrong := self._weigh()) is not None:
            raise wrong.error

    def _mend(self) -> None:
        """After a change, which is what is meant: flags that cannot be meant with it give way."""
        given_way: list[Problem] = []
        newer = self._lengths() != self._weighed
        self._weighed = self._lengths()
        while (wrong := self._weigh(newer=newer)) is not None and (dropped := self._flags.drop(wrong.flags)):
            flags = " and ".join(BY_NAME[name].flags[-1] for name in dropped)
            do = "do" if len(dropped) > 1 else "does"
            given_way.append(Problem(dropped[0], f"{flags} {do} not count any more: {wrong.error.message}"))
        self.given_way = tuple(given_way)
        self.problems += self.given_way

    def ride(self, pair: Layer, model: Recommended | None = None) -> None:
        """Go on with what another pair says, and the file of its target.

        Raises:
            UsageError: The flags contradict it; nothing has changed.
        """
        before = self.pair, self.model
        self.pair, self.model = pair, model or Recommended()
        try:
            self._insist()
        except UsageError:
            self.pair, self.model = before
            self._insist()
            raise

    def given(self, flags: Layer, pair: Layer, model: Recommended | None = None) -> Resolved:
        """What it would add up to with more flags, with this pair and its target's file; nothing is changed.

        Raises:
            UsageError: They contradict each other.
        """
        trial = LiveSettings(None, None, pair, model)
        trial._conversation, trial._shared = self._conversation, self._shared
        trial._flags = FlagLayer({**self._flags.layer, **flags})
        trial._insist()
        trial._ignored |= self._ignored & set(_RELOADED)
        return trial.resolved()

    def give(self, flags: Layer) -> None:
        """Take more flags, as if they had been typed behind the others.

        Raises:
            UsageError: They contradict what counts; nothing has changed.
        """
        self.given(flags, self.pair, self.model)
        self._flags.take(flags)
        self._mend()

    # What is loaded

    def loading(self) -> None:
        """The models are being loaded as everything stands now."""
        now = self.resolved()
        self._loaded = {name: now[name] for name in (*_RELOADED, "draft.mode")}

    @property
    def waiting(self) -> tuple[Setting, ...]:
        """What counts only when the models are loaded anew."""
        if self._loaded is None:
            return ()
        now, loaded = self.resolved(), self._loaded
        changed = [name for name in _RELOADED if now[name] != loaded[name]]
        # A draft that is loaded can rest; one that is not must be fetched.
        if loaded["draft.mode"] == "off" and now["draft.mode"] != "off":
            changed.append("draft.mode")
        return tuple(BY_NAME[name] for name in changed)

    def leave_placement_out(self, why: str) -> None:
        """What preset and file say about models and memory cannot be meant together; until the next change."""
        self._ignored |= set(_RELOADED)
        self.problems += (Problem("model", f"model: {why} What it says about models and memory does not count."),)

    # What is changed

    def refusal(self, name: str, value: Value, scope: Scope = Scope.ALL) -> str:
        """Why a value cannot be taken along with the others, as a sentence; "" if it can."""
        setting = BY_NAME[name]
        if scope is Scope.CONVERSATION and not setting.in_conversation:
            return f"{name} counts for all conversations."
        if name == "preset" and value is not None and value not in self.presets:
            return unknown_preset(str(value), self.presets).message
        return contradiction(
            Resolved({Origin.FLAG: {name: value}, Origin.FILE: {n: self.resolved()[n] for n in BY_NAME}})
        )

    def set(self, name: str, value: Value, scope: Scope = Scope.ALL) -> None:
        """Change a setting.

        Raises:
            SettingsError: The file cannot be written; nothing has changed.
        """
        if scope is Scope.CONVERSATION:
            self._conversation[name] = value
        else:
            self._shared.set(name, value)
            self._conversation.pop(name, None)
        self._flags.overrule(name, for_all=scope is Scope.ALL)
        self._mend()

    def set_own(self, name: str, value: Value) -> None:
        """Change a setting for this conversation; None lets what is under it count."""
        if value is None:
            self._conversation.pop(name, None)
            self._flags.reinstate(self._conversation)
        else:
            self._conversation[name] = value
            self._flags.overrule(name, for_all=False)
        self._mend()

    def reset(self, name: str) -> None:
        """Let what is under the present value count: of the preset, the file, the pair, the model file, or the default.

        A mode that only numbers mean goes with these.

        Raises:
            SettingsError: The file cannot be written; nothing has changed.
        """
        now = self.resolved()
        names = now.meaning_fixed if name == "draft.mode" and now.meaning_fixed else (name,)
        match now.origin(name):
            case Origin.FLAG:
                self._flags.drop(names)
            case Origin.CONVERSATION:
                for each in names:
                    self._conversation.pop(each, None)
                self._flags.reinstate(self._conversation)
            case Origin.FILE:
                self._shared.unset(*names)
        self._mend()

    def reset_all(self) -> None:
        """Let nothing count but pair, model file and defaults; presets and keys stay.

        Raises:
            SettingsError: The file cannot be written; nothing has changed.
        """
        self._shared.clear()
        self._flags.clear()
        self._conversation = {}
        self._mend()

    def save_preset(self, name: str) -> None:
        """Keep what differs from pair, model file and defaults under a name.

        Raises:
            SettingsError: The file cannot be written; nothing has changed.
        """
        now = self.resolved()
        own = {
            setting.name: now[setting.name]
            for setting in SETTINGS
            if setting.in_preset and now.origin(setting.name) not in (Origin.PAIR, Origin.MODEL, Origin.DEFAULT)
        }
        self._shared.save_preset(name, own)

    def remove_preset(self, name: str) -> None:
        """Take a preset out of the file; what counts in its place is one of this name that comes with Tandem, if any.

        Raises:
            SettingsError: The file cannot be written; nothing has changed.
        """
        self._shared.remove_preset(name)
        if name not in self.presets:
            if self._conversation.get("preset") == name:
                del self._conversation["preset"]
                self._flags.reinstate(self._conversation)
            if self._flags.layer.get("preset") == name:
                self._flags.drop(("preset",))
        self._mend()

    def move_file_away(self) -> str:
        """Rename a file that cannot be read; returns its new name.

        Raises:
            SettingsError: It cannot be renamed.
        """
        away = self._shared.move_file_away()
        self._mend()
        return str(away)

    # A conversation's own

    def enter(self, document: Mapping[str, object]) -> Sequence[Problem]:
        """Go on in a conversation; returns what in its document, which may come from anywhere, does not count."""
        values, problems = check(document, lambda setting: setting.in_conversation)
        self._conversation = {}
        self._flags.reinstate(self._conversation)
        self._conversation = values
        if (name := values.get("preset")) is not None and name not in self.presets:
            problems.append(Problem("preset", unknown_preset(str(values.pop("preset")), self.presets).message))
        # What a conversation leaves to others is no newer than the flags.
        self._weighed = None if any(name in values for name in ("preset", *LENGTHS)) else self._lengths()
        self._mend()
        numbers = [problem for problem in self.problems if problem.name == "draft"]
        return [*problems, *(numbers if any(name in values for name in LENGTHS) else ())]

    @property
    def document(self) -> dict[str, object]:
        """What the conversation keeps of its own."""
        return nested({name: BY_NAME[name].kind.write(value) for name, value in self._conversation.items()})

    def sentences(self) -> Sequence[str]:
        """What does not count and should be known."""
        shared = self._shared.sentences()
        return shared if self.content.unreadable else (*shared, *(printable(problem.text) for problem in self.problems))


class _Contradiction(NamedTuple):
    """Flags, by the names of their settings, that cannot be meant, and why."""

    flags: tuple[str, ...]
    error: UsageError


def _check(settings: Resolved) -> None:
    """Raise UsageError for numbers that contradict each other."""
    drafting(settings)
    sampling(settings)
