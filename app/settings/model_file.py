"""Sampling values that a model file recommends: the keys general.sampling.* of its metadata.

Keys and meaning are llama.cpp's (llama_model_meta_key in llama.h).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

from app.engine.types import SAMPLING_BOUNDS
from app.settings.checking import check
from app.settings.kinds import Value
from app.settings.layers import Layer, Origin, Resolved
from app.settings.table import BY_NAME

_KEY = "general.sampling."
_SETTINGS = {
    "temp": "temp",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "penalty_last_n": "repeat_last_n",
    "penalty_repeat": "repeat_penalty",
}
_FLOAT32_DIGITS = 9


@dataclass(frozen=True, slots=True)
class Recommended:
    """Recommendations of a model file.

    Attributes:
        values: Checked settings by name.
        notice: What is ignored, as sentences; "" if nothing is.
    """

    values: Layer = field(default_factory=dict)
    notice: str = ""

    def under(self, settings: Resolved) -> Recommended:
        """Return the recommendations that apply with these settings.

        Greedy answers take none but the temperature: a penalty would change them.
        """
        if settings["sampling.temp"] != 0 or settings.origin("sampling.temp") is Origin.MODEL:
            return self
        return Recommended({name: value for name, value in self.values.items() if name == "sampling.temp"})

    @property
    def line(self) -> str:
        """The values in one line; "" without any."""
        return ", ".join(f"{BY_NAME[name].key} {BY_NAME[name].kind.show(value)}" for name, value in self.values.items())


def recommended(metadata: Mapping[str, object]) -> Recommended:
    """Read the recommendations from untrusted metadata; invalid ones are ignored and reported.

    Args:
        metadata: Value by key; None for an array that was not kept.
    """
    given = {key: metadata[_KEY + key] for key in _SETTINGS if _KEY + key in metadata}
    if given.get("penalty_last_n") == -1:
        # In llama.cpp this means the whole context.
        given["penalty_last_n"] = SAMPLING_BOUNDS["repeat_last_n"][1]
    values, problems = check({"sampling": {_SETTINGS[key]: raw for key, raw in given.items()}})
    values = {name: _shortest(values[name]) for name in BY_NAME if name in values}
    if not problems:
        return Recommended(values)
    more = f" And {len(problems) - 1} more." if len(problems) > 1 else ""
    return Recommended(values, f"The model file recommends an invalid sampling value: {problems[0].text}{more}")


def _shortest(value: Value) -> Value:
    """Return a float32 with as few digits as possible: 0.95 instead of 0.949999988."""
    if not isinstance(value, float):
        return value
    same = struct.pack("<f", value)
    digits = (float(f"{value:.{n}g}") for n in range(1, _FLOAT32_DIGITS))
    return next((short for short in digits if struct.pack("<f", short) == same), value)
