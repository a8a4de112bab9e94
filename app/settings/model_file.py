"""The sampling values that a model's makers recommend in its file: the keys general.sampling.* of its metadata.

Keys and meaning are llama.cpp's (llama_model_meta_key in llama.h, common_init_sampler_from_model in common.cpp): a
value counts where no one gave one, and a sampler that the sequence leaves out does nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from app.engine.types import SAMPLING_BOUNDS
from app.settings.checking import Problem, check
from app.settings.kinds import Value
from app.settings.layers import Layer, Origin, Resolved
from app.settings.table import BY_NAME

_KEY = "general.sampling."
_SEQUENCE = "sequence"
_SETTINGS = {
    "temp": "temp",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "penalty_last_n": "repeat_last_n",
    "penalty_repeat": "repeat_penalty",
}
_CHAIN: tuple[tuple[frozenset[str], Layer], ...] = (
    (frozenset({"penalties"}), {"sampling.repeat_penalty": 1.0}),
    (frozenset({"top_k", "top-k"}), {"sampling.top_k": 0}),
    (frozenset({"typ_p", "typ-p", "typ", "typical", "typical-p"}), {}),
    (frozenset({"top_p", "top-p", "nucleus"}), {"sampling.top_p": 1.0}),
    (frozenset({"min_p", "min-p"}), {"sampling.min_p": 0.0}),
    (frozenset({"temperature", "temp"}), {"sampling.temp": 1.0}),
)
"""The samplers of Tandem's chain, in its order: what a sequence may call each, and what turns it off, if it is not."""
_LONGEST_SEQUENCE = 511
"""Bytes that llama.cpp reads of one."""
_FLOAT32_DIGITS = 9
_MOST_TOLD = 2


@dataclass(frozen=True, slots=True)
class Recommended:
    """Recommendations of a model file.

    Attributes:
        values: Checked settings by name.
        notice: What of it cannot count, in sentences; "" where all of it can.
    """

    values: Layer = field(default_factory=dict)
    notice: str = ""

    def under(self, settings: Resolved) -> Recommended:
        """Return the recommendations that apply with these settings.

        None but the temperature for greedy answers: a penalty would change them.
        """
        if settings["sampling.temp"] != 0 or settings.origin("sampling.temp") is Origin.MODEL:
            return self
        return Recommended({name: value for name, value in self.values.items() if name == "sampling.temp"})

    @property
    def line(self) -> str:
        """The values in one line; "" where there are none."""
        return ", ".join(f"{BY_NAME[name].key} {BY_NAME[name].kind.show(value)}" for name, value in self.values.items())


def recommended(metadata: Mapping[str, object]) -> Recommended:
    """Read the recommendations from metadata; invalid ones are skipped and reported.

    Args:
        metadata: Key to value, from a file that no one vouches for; None for an array that was not kept.
    """
    given = {key.removeprefix(_KEY): raw for key, raw in metadata.items() if key.startswith(_KEY)}
    known = {setting: _usable(key, given[key]) for key, setting in _SETTINGS.items() if key in given}
    values, problems = check({"sampling": known})
    values = {name: _as_written(value) for name, value in values.items()}
    lacking = _lacking(given)
    if given.get(_SEQUENCE, "") != "":
        sequence = _samplers(given[_SEQUENCE])
        if sequence:
            values |= {
                name: value for i, (_, off) in enumerate(_CHAIN) if i not in sequence for name, value in off.items()
            }
            lacking += ["another order of the samplers"] if sequence != sorted(set(sequence)) else []
        else:
            problems.append(Problem(_SEQUENCE, f"{_KEY}{_SEQUENCE} names no sampler."))
    return Recommended({name: values[name] for name in BY_NAME if name in values}, _notice(problems, lacking))


def _usable(key: str, raw: object) -> object:
    if key == "penalty_last_n" and raw == -1:
        # llama.cpp's word for the whole context.
        return SAMPLING_BOUNDS["repeat_last_n"][1]
    return [] if raw is None else raw


def _as_written(value: Value) -> Value:
    """A float32 with the digits that its makers wrote: 0.95 and not 0.949999988."""
    if not isinstance(value, float):
        return value
    same = struct.pack("<f", value)
    digits = (float(f"{value:.{n}g}") for n in range(1, _FLOAT32_DIGITS))
    return next((short for short in digits if struct.pack("<f", short) == same), value)


def _samplers(raw: object) -> list[int]:
    """The places in `_CHAIN` that a sequence names, in its order."""
    if not isinstance(raw, str) or len(raw.encode("utf-8", "replace")) > _LONGEST_SEQUENCE:
        return []
    names = (name.strip() for name in raw.split(";"))
    return [i for name in names for i, (spellings, _) in enumerate(_CHAIN) if name in spellings]


def _lacking(given: Mapping[str, object]) -> list[str]:
    """Return the requested samplers that Tandem does not have."""
    sequence = given.get(_SEQUENCE)
    xtc = not isinstance(sequence, str) or not sequence or "xtc" in sequence.split(";")
    asked = {"mirostat": _above_zero(given.get("mirostat")), "XTC": xtc and _above_zero(given.get("xtc_probability"))}
    return [name for name, is_asked in asked.items() if is_asked]


def _above_zero(raw: object) -> bool:
    return isinstance(raw, int | float) and not isinstance(raw, bool) and raw > 0


def _notice(problems: Sequence[Problem], lacking: Sequence[str]) -> str:
    sentences = []
    if problems:
        told = " ".join(problem.text for problem in problems[:_MOST_TOLD])
        more = f" And {len(problems) - _MOST_TOLD} more." if len(problems) > _MOST_TOLD else ""
        sentences.append(f"The model file recommends sampling values that do not count: {told}{more}")
    if lacking:
        sentences.append(
            f"The model file asks for {' and '.join(lacking)}, which Tandem does not have; answers come without."
        )
    return " ".join(sentences)
