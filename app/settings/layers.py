"""Precedence of settings: flag, conversation, preset, file, pair, model file, default."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum

from app.core.errors import UsageError
from app.core.printable import printable
from app.settings.kinds import Value
from app.settings.table import BY_NAME, NUMBERS, nearest

Layer = Mapping[str, Value]
"""Checked values by the names of their settings."""

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
"""The presets of Tandem; one of the same name in the settings file replaces it."""


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
        layers: Values by origin; origins without any may be missing.
    """

    def __init__(self, layers: Mapping[Origin, Layer]) -> None:
        self._given = layers
        self._layers = {origin: _with_mode(layers.get(origin, {})) for origin in Origin}

    def __getitem__(self, name: str) -> Value:
        return next(self._found(name))[0]

    def origin(self, name: str) -> Origin:
        """Return where the value of a setting comes from."""
        return next(self._found(name))[1]

    def over(self, name: str) -> tuple[Value, Origin]:
        """Return the value of the next layer below, and its origin."""
        found = list(self._found(name))
        return found[min(1, len(found) - 1)]

    def _found(self, name: str) -> Iterator[tuple[Value, Origin]]:
        """Yield every value of a setting with its origin, the strongest first."""
        for origin, layer in self._layers.items():
            if name in layer:
                yield layer[name], origin
        yield BY_NAME[name].default, Origin.DEFAULT

    @property
    def meaning_fixed(self) -> tuple[str, ...]:
        """The numbers that imply fixed drafting; () if a mode is set or the pair's entry implies it."""
        origin = self.origin("draft.mode")
        layer = self._given.get(origin, {})
        if "draft.mode" in layer or origin is Origin.PAIR:
            return ()
        return tuple(name for name in NUMBERS if name in layer)


def _with_mode(layer: Layer) -> Layer:
    """Add fixed drafting to a layer that sets draft numbers but no mode."""
    if "draft.mode" not in layer and any(name in layer for name in NUMBERS):
        return {**layer, "draft.mode": "fixed"}
    return layer


def unknown_preset(name: str, known: Mapping[str, object]) -> UsageError:
    """Return the error for a preset that does not exist, with the nearest name."""
    return UsageError(
        f'There is no preset "{printable(name)}".{nearest(name, known)}', f"Known: {', '.join(map(printable, known))}."
    )
