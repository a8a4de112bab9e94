"""Expected speedup of a pair, from measurements only."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from app.engine.drafting_report import Speedup, pair_drafting
from app.models.catalog import Pair
from app.models.pair_names import quantization
from app.models.recommend import Room

_KIND = re.compile(r"(?:UD-)?(I?Q\d(?:_[01K])?|B?F16|F32)(?![0-9])")
_BY_LOOKUP = {"Q4_0": "1.02x to 1.05x", "Q4_K": "0.99x to 1.01x"}
"""Speedup of n-gram drafting over nine kinds of text, Qwen2.5-Coder 1.5B on two cores of an AMD EPYC. A two-token step
took 1.6 to 2 times one token, so a draft model lost."""
_BY_MODEL = {"BF16": "1.34x to 1.75x"}
"""The same with the draft model, from the lowest to the highest of all runs."""


@dataclass(frozen=True, slots=True)
class Seen:
    """Measured drafting of a pair on this machine.

    Attributes:
        quant: Of the target's weights.
        tokens_per_second: Without drafts.
        off: Why the draft model is off; "" if it is on.
        speedup: Speedup of benchmarks here or else of recent answers; None without enough data.
        is_typical: Whether the draft is so much smaller than its target that other pairs may be judged by this one.
    """

    quant: str
    tokens_per_second: float
    off: str = ""
    speedup: Speedup | None = None
    is_typical: bool = True

    @property
    def drafting(self) -> str:
        """Speedup, or why there is none, as a clause; "" if not known yet."""
        return pair_drafting(self.speedup, self.off)


def speeds(seen: Mapping[str, Seen]) -> dict[str, float]:
    """Return the measured tokens per second without drafts, by the pairs' names."""
    return {name: one.tokens_per_second for name, one in seen.items()}


def expected_gain(pair: Pair, room: Room | None, seen: Mapping[str, Seen]) -> str:
    """Return what is known of drafting with a pair on this machine, as a sentence; "" where nothing is.

    What this machine has measured of the pair itself counts first, then what it has measured of another one whose
    target has such weights, then what was measured elsewhere. The last two hold for processors only: there the kind of
    weights decides what checking several tokens at once costs.

    Args:
        pair: The pair.
        room: Where models go; None before that is known.
        seen: What answers on this machine have shown, by the pairs' names.
    """
    if pair.draft is None:
        return ""
    own = seen.get(pair.name)
    if own is not None and own.drafting:
        return f"Measured here: {own.drafting}."
    quant = own.quant if own is not None else quantization(pair.target)
    kind = weights_kind(quant)
    if room is None or room.device or not kind:
        return ""
    for name, other in seen.items():
        if other.drafting and other.is_typical and weights_kind(other.quant) == kind:
            return f"Measured here with {name}, whose target is {kind} too: {other.drafting}."
    if kind in _BY_LOOKUP:
        return f"With {kind} weights on two cores n-gram drafting gave {_BY_LOOKUP[kind]}; a draft model lost."
    if kind in _BY_MODEL:
        return f"With {kind} weights on two cores a draft model gained {_BY_MODEL[kind]}."
    return ""


def weights_kind(quant: str) -> str:
    """What quantizations of one way to compute have in common: "Q4_K" of Q4_K_M and of UD-Q4_K_XL; "" if unknown."""
    found = _KIND.match(quant.upper())
    return found[1] if found else ""
