"""Who has the say over a setting: the first of flag, conversation, preset, file, pair and model file that
knows it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from app.core.errors import UsageError
from app.core.printable import printable
from app.settings.kinds import Value
from app.settings.table import BY_NAME, NUMBERS, nearest

Layer = Mapping[str, Value]
"""Checked values by the names of their settings."""


class Origin(Enum):
    """Where a value comes from, the strongest first; in the words that every list of settings uses."""

    FLAG = "command line"
    CONVERSATION = "this conversation"
    PRESET = "preset"
    FILE = "settings.toml"
    PAIR = "pair"
    MODEL = "model file"
    DEFAULT = "default"


class Resolved:
    """All settings as they count.

    Args:
        layers: What each origin says; those that say nothing may be missing.
    """

    def __init__(self, layers: Mapping[Origin, Layer]) -> None:
        self._given = layers
        self._layers = {origin: _with_mode(layers.get(origin, {})) for origin in Origin}

    def __getitem__(self, name: str) -> Value:
        """The value of a setting."""
        return self._layers[self.origin(name)].get(name, BY_NAME[name].default)

    def origin(self, name: str) -> Origin:
        """Where its value comes from."""
        return next((origin for origin in Origin if name in self._layers[origin]), Origin.DEFAULT)

    def over(self, name: str) -> tuple[Value, Origin]:
        """What would count if its present origin said nothing, and whose that is."""
        later = list(Origin)[list(Origin).index(self.origin(name)) + 1 :]
        origin = next((origin for origin in later if name in self._layers[origin]), Origin.DEFAULT)
        return self._layers[origin].get(name, BY_NAME[name].default), origin

    @property
    def meaning_fixed(self) -> tuple[str, ...]:
        """The numbers that somebody gave without a mode, and that mean fixed drafting; () where a pair itself does."""
        origin = self.origin("draft.mode")
        layer = self._given.get(origin, {})
        if "draft.mode" in layer or origin is Origin.PAIR:
            return ()
        return tuple(name for name in NUMBERS if name in layer)


def _with_mode(layer: Layer) -> Layer:
    """Whoever gives numbers and no mode means fixed drafting, as on the command line."""
    if "draft.mode" not in layer and any(name in layer for name in NUMBERS):
        return {**layer, "draft.mode": "fixed"}
    return layer


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
"""Greedy, for what has one right answer; a wide draw held together by min-p; code with a system prompt that fits."""


def unknown_preset(name: str, known: Mapping[str, object]) -> UsageError:
    """There is no preset of that name; the sentence names the nearest."""
    return UsageError(
        f'There is no preset "{printable(name)}".{nearest(name, known)}', f"Known: {', '.join(map(printable, known))}."
    )
