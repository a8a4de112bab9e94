"""Precedence of settings (flag, conversation, preset, file, pair, model file, default); conversion for the engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from app.core.errors import UsageError
from app.core.pictures import PictureLimits
from app.core.printable import printable
from app.engine.sources import Source
from app.engine.types import AutoDraft, Drafting, DraftParams, SamplingParams
from app.settings.kinds import Value
from app.settings.table import BY_NAME, SETTINGS, nearest

_SAMPLING_NAMES = {setting.field: setting.name for setting in SETTINGS if setting.field}
"""Names of settings by their fields of `SamplingParams`."""
_DRAFT_FIELDS = ("n_max", "n_min", "p_min")
Layer = Mapping[str, Value]
"""Checked values by the names of their settings."""
_DEFAULT_VALUES: Layer = {name: setting.default for name, setting in BY_NAME.items()}

BUILT_IN: Mapping[str, Layer] = {
    "precise": {"sampling.temp": 0.0},
    "creative": {
        "sampling.temp": 1.1,
        "sampling.top_k": 0,
        "sampling.top_p": 1.0,
        "sampling.min_p": 0.08,
        "sampling.presence_penalty": 0.2,
    },
    "coder": {
        "sampling.temp": 0.2,
        "sampling.top_p": 0.9,
        "answer.system": (
            "You are a careful programmer. Answer with complete, working code and a few words on why it is so. "
            "Change only what was asked for. If something is unclear, say what you assume."
        ),
    },
}
"""Tandem's presets; the settings file can replace each with a preset of the same name."""


class Origin(Enum):
    """Origin of a value, highest precedence first."""

    FLAG = "command line"
    CONVERSATION = "this conversation"
    PRESET = "preset"
    FILE = "settings.toml"
    PAIR = "pair"
    MODEL = "model file"
    DEFAULT = "default"


class Resolved:
    """All settings, merged: each has the value of the strongest layer that sets it.

    Args:
        layers: Values by origin; empty layers may be missing.
    """

    def __init__(self, layers: Mapping[Origin, Layer]) -> None:
        self._layers = {**layers, Origin.DEFAULT: _DEFAULT_VALUES}

    def __getitem__(self, name: str) -> Any:
        """Return the value of a setting, of the type that its kind reads."""
        return self._layers[self.origin(name)][name]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Resolved) and self._values == other._values

    def __hash__(self) -> int:
        return hash(self._values)

    @property
    def _values(self) -> tuple[Value, ...]:
        return tuple(self[name] for name in BY_NAME)

    def over(self, layer: Layer) -> Resolved:
        """Return these settings with other values on top, as if they had been typed."""
        return Resolved({**self._layers, Origin.FLAG: {**self._layers.get(Origin.FLAG, {}), **layer}})

    def origin(self, name: str) -> Origin:
        """Return the origin of a setting's value."""
        return next(origin for origin in Origin if name in self._layers.get(origin, {}))


DEFAULTS = Resolved({})
"""Every setting with its default."""


@dataclass(frozen=True, slots=True)
class Thinking:
    """The requested reasoning and its effort, one of `EFFORTS`; None follows the template."""

    enabled: bool | None = None
    effort: str | None = None


AS_TRAINED = Thinking()
"""Follow the template."""


@dataclass(frozen=True, slots=True)
class ThinkingSupport:
    """Reasoning controls that a model supports.

    Attributes:
        switchable: Whether thinking can be turned on or off.
        effort: Whether a reasoning effort works unless thinking is turned on.
        effort_on: Whether a reasoning effort works with thinking turned on.
    """

    switchable: bool = True
    effort: bool = True
    effort_on: bool = True

    def why_ignored(self, name: str, now: Thinking) -> str | None:
        """Return as a clause about the model why it ignores a setting, if it does; `now` is the requested reasoning.

        If reasoning is off, an effort that changes nothing says nothing about the model.
        """
        if name == "answer.thinking" and not self.switchable:
            return "cannot turn reasoning on or off"
        takes_effort = self.effort_on if now.enabled else self.effort
        if name != "answer.reasoning_effort" or now.enabled is False or takes_effort:
            return None
        return "has a reasoning effort only with reasoning on" if self.effort_on else "has no reasoning effort"


def unknown_preset(name: str, known: Mapping[str, object]) -> UsageError:
    """Return the error for an unknown preset, with the nearest name."""
    return UsageError(
        f'There is no preset "{printable(name)}".{nearest(name, known)}', f"Known: {', '.join(map(printable, known))}."
    )


def sampling(settings: Resolved) -> SamplingParams:
    """Return the sampler chain."""
    fields: Any = {field: settings[name] for field, name in _SAMPLING_NAMES.items()}
    return SamplingParams(**fields)


def drafting(settings: Resolved) -> Drafting:
    """Return automatic or fixed drafting, or None; n_min is at most n_max."""
    if settings["draft.type"] == "none":
        return None
    match settings["draft.mode"]:
        case "fixed":
            numbers: dict[str, Any] = {field: settings[f"draft.{field}"] for field in _DRAFT_FIELDS}
            return DraftParams(**{**numbers, "n_min": min(numbers["n_min"], numbers["n_max"])})
        case "auto":
            return automatic(settings)
    return None


def automatic(settings: Resolved) -> AutoDraft:
    """Return the parameters of automatic drafting in any mode."""
    source, match = settings["draft.source"], settings["draft.ngram_min_match"]
    is_ngram = settings["draft.type"] == Source.NGRAM
    return AutoDraft(source != "ngram" and not is_ngram, source != "model" or is_ngram, match)


def thinking(settings: Resolved) -> Thinking:
    """Return whether to think, and how much; None leaves it to the model."""
    mode, effort = settings["answer.thinking"], settings["answer.reasoning_effort"]
    return Thinking(None if mode == "auto" else mode == "on", None if effort == "auto" else effort)


def picture_limits(settings: Resolved) -> PictureLimits:
    """Return the limits of pictures."""
    return PictureLimits(*(settings[f"answer.picture_{name}"] for name in ("size", "pixels", "ratio")))


def pair_layer(chain: Mapping[str, float], fixed: DraftParams | None) -> Layer:
    """Return the settings of a pair's entry: its sampling parameters, and any fixed drafting parameters."""
    layer: dict[str, Value] = {_SAMPLING_NAMES[field]: value for field, value in chain.items()}
    if fixed is not None:
        layer |= {"draft.mode": "fixed", **{f"draft.{field}": getattr(fixed, field) for field in _DRAFT_FIELDS}}
    return layer
