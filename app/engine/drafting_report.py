"""Texts about drafting and its speedup, shared by all screens and commands."""

from __future__ import annotations

import re
from dataclasses import dataclass

from app.engine.sources import Source
from app.engine.types import DraftingStatus

BRIEF = 28
"""Width of a reason in the side panel, in characters."""
FEWEST_DRAFTED = 16
"""Drafted tokens below which a percentage and a verdict are meaningless."""
NO_DRAFT = "no draft"
NO_SPEEDUP = "no speedup"
PAUSED = "paused"
_NO_GAIN = "drafts would be slower now"
_DECIMAL_BELOW = 9.95
_SAME_RATE_SHARE = 0.9
"""Two rates are shown as one value if the smaller is at least this share of the larger."""
_OFF_REASONS = tuple(source.turned_off("") for source in Source)
_CLAUSE_END = re.compile("[:;]")


def times(ratio: float) -> str:
    """Return a ratio such as "3.1×"."""
    return f"{ratio:.1f}×"


@dataclass(frozen=True, slots=True)
class Speedup:
    """Speedup of an answer, or of a pair.

    Attributes:
        ratio: Time without drafts over the time taken.
        measured: Whether the time without drafts was measured in the same answer; otherwise it was predicted.
        verdict: "winning", "break-even" or "losing"; "" unless measured over enough drafted tokens.
    """

    ratio: float
    measured: bool = False
    verdict: str = ""

    @property
    def is_none(self) -> bool:
        """Return whether one decimal shows no difference."""
        return times(self.ratio) == times(1.0)

    @property
    def helps(self) -> bool:
        """Return whether one decimal shows a gain."""
        return self.ratio > 1 and not self.is_none

    def __str__(self) -> str:
        text = NO_SPEEDUP if self.is_none else times(self.ratio)
        return text if self.measured else f"{text} (estimate)"

    @property
    def labeled(self) -> str:
        """Return "speedup 3.1×" or "no speedup", followed by "(estimate)" unless it was measured."""
        return str(self) if self.is_none else f"speedup {self}"


def rate_number(tokens_per_second: float) -> str:
    """Return a rate without its unit: "107", or "4.8" below 10."""
    return f"{tokens_per_second:.{1 if tokens_per_second < _DECIMAL_BELOW else 0}f}"


def rate(tokens_per_second: float) -> str:
    """Return a rate such as "107 tok/s"."""
    return f"{rate_number(tokens_per_second)} tok/s"


def rate_range(low: float, high: float) -> str:
    """Return "18 to 28 tok/s", or one rate if they hardly differ."""
    return rate(high) if low > _SAME_RATE_SHARE * high else f"{rate_number(low)} to {rate(high)}"


def acceptance(n_accepted: float, n_drafted: float) -> str:
    """Return "78%", or "2 of 3" for few drafted tokens."""
    if n_drafted < FEWEST_DRAFTED:
        return f"{n_accepted:.0f} of {n_drafted:.0f}"
    return f"{n_accepted / n_drafted:.0%}"


def drafting_now(status: DraftingStatus) -> tuple[str, str]:
    """Return the source of the latest step, "paused" or "no draft", and the reason in at most `BRIEF` characters."""
    told = status.reason or ""
    off = next((prefix for prefix in (*_OFF_REASONS, f"{PAUSED}: ") if told.startswith(prefix)), "")
    reason = told.removeprefix(off)
    texts = (reason, _CLAUSE_END.split(reason, maxsplit=1)[0], _NO_GAIN * bool(off))
    why = next(text for text in texts if len(text) <= BRIEF)
    return (PAUSED if off else NO_DRAFT) if status.source == "off" else status.source.label, why


def why_undrafted(reason: str | None) -> str:
    """Return why an answer has no drafts; a reason that contains "off" needs no prefix."""
    return reason if reason and reason.startswith(_OFF_REASONS) else ": ".join(filter(None, (NO_DRAFT, reason)))


def pair_drafting(speedup: Speedup | None, off: str | None) -> str | None:
    """Return as a clause a pair's speedup on this machine, or why it has none, if known.

    `off` is why the drafter is off; a measured speedup takes precedence.
    """
    if speedup is not None and speedup.helps:
        return f"speedup {'' if speedup.measured else 'about '}{times(speedup.ratio)}"
    return off or (NO_SPEEDUP if speedup is not None else None)


def capitalized(clause: str) -> str:
    """Capitalize a clause at the beginning of a sentence."""
    return f"{clause[:1].upper()}{clause[1:]}"


def sentence(clause: str) -> str:
    """Make a clause a sentence."""
    return f"{capitalized(clause)}."


def nothing_fixed(drafter: Source, n_max: int, n_min: int, p_min: float) -> str | None:
    """Return why these settings of fixed drafting submitted no drafts, unless they allow any draft."""
    if n_max == 0:
        return "n_max is 0"
    if p_min <= 0 and n_min <= 1:
        return None
    unsure = f"the {drafter.label} was never sure enough for p_min {p_min:g}"
    return unsure + (f" for as many tokens as n_min {n_min}" if n_min > 1 else "")
