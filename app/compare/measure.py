"""Speeds and speedups of a race: medians, ranges, and whether a difference exceeds noise."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from app.engine.drafting_report import NO_DRAFT, NO_SPEEDUP, Speedup, times

if TYPE_CHECKING:
    # Races load the engine, which is not needed to read old results.
    from app.compare.race import Round

NOISE = 0.03
"""Smaller differences count as none, however often they were measured."""
_RANGES_TO_HALF_INTERVAL = (6.36, 1.34, 0.74, 0.56)
"""Half the 95% interval of the median of 2 to 5 measurements, in ranges (E. Lord, Biometrika 34, 1947; adapted from
mean to median by simulation)."""
_SIGMAS_OF_95_PERCENT = 1.96
"""Standard deviations of a 95% interval."""
_NEXT_RUN_COUNTS = (3, 10, 30, 100)
"""Numbers of runs to suggest if fewer do not suffice."""
WHOLE = "all"
"""Name for all kinds of text together."""
UNCLEAR = "?"
"""Mark for a ratio from too few runs."""

Outcome = Literal["faster", "slower", "tie", "same", "unclear", "unknown"]
"""Meaning of a ratio: "same" if nothing was drafted, "unclear" after too few runs, "unknown" if not measured."""


@dataclass(frozen=True, slots=True)
class Spread:
    """One or more measurements; `likely` is the 95% interval of the median."""

    median: float
    low: float
    high: float
    n: int
    likely: tuple[float, float] = (0.0, math.inf)

    def as_json(self) -> dict[str, Any]:
        return {"median": self.median, "low": self.low, "high": self.high, "n": self.n}


def spread(values: Iterable[float | None]) -> Spread | None:
    """Return median and range of the known values, if any."""
    known = sorted(value for value in values if value is not None)
    return Spread(statistics.median(known), known[0], known[-1], len(known), _likely(known)) if known else None


def _likely(known: Sequence[float]) -> tuple[float, float]:
    """Return the 95% interval of the median of sorted measurements, from the range or by a sign test."""
    n, low, high = len(known), known[0], known[-1]
    if n < 2 or low <= 0.0:
        return 0.0, math.inf
    if n < len(_RANGES_TO_HALF_INTERVAL) + 2:
        reach, median = (high / low) ** _RANGES_TO_HALF_INTERVAL[n - 2], statistics.median(known)
        return median / reach, median * reach
    # The normal approximation of the binomial distribution, with continuity correction
    left_out = max(0, int((n - 1) / 2 - _SIGMAS_OF_95_PERCENT * math.sqrt(n) / 2))
    return known[left_out], known[n - 1 - left_out]


@dataclass(frozen=True, slots=True)
class SideFigures:
    """Figures of one side over some rounds.

    Attributes:
        ratio: Its speed relative to the baseline, round by round; None for the baseline and if not measured.
        tokens_per_second: Speed after the first token.
        acceptance: Accepted over drafted tokens in all rounds, if any were drafted.
        draft_prompt_ms: Draft model's prefill time; counted against drafting.
        is_idle: Whether it neither drafted nor read a prompt with the draft model.
    """

    name: str
    ratio: Spread | None
    tokens_per_second: Spread | None
    first_token_ms: Spread | None
    acceptance: float | None
    tokens_per_verify: float | None
    draft_prompt_ms: float
    drafter: str
    is_idle: bool = False

    @property
    def outcome(self) -> Outcome:
        """Return whether the ratio differs from 1 beyond chance and noise."""
        if self.ratio is None:
            return "unknown"
        if self.is_idle:
            return "same"
        low, high = self.ratio.likely
        if low >= 1 / (1 + NOISE) and high <= 1 + NOISE:
            return "tie"
        if high < 1.0 and self.ratio.median <= 1 - NOISE:
            return "slower"
        return "faster" if low > 1.0 and self.ratio.median >= 1 + NOISE else "unclear"

    @property
    def gain(self) -> str:
        """The speedup in words, without the number of runs."""
        if self.ratio is None:
            return "not measured: the answers are too short"
        if self.outcome == "same":
            return f"{NO_SPEEDUP}: nothing was drafted, any difference is chance"
        return NO_SPEEDUP if self.outcome == "tie" else _faster(self.ratio)

    def verdict(self, more: str = "") -> str:
        """Return one sentence, such as "2.1× faster (3 runs each, alternating: 2.0 to 2.2)".

        `more` says how to get more rounds, with a placeholder for their number.
        """
        ratio = self.ratio
        if ratio is None:
            return self.gain
        runs = "1 run each"
        if ratio.n > 1:
            runs = f"{ratio.n} runs each, alternating: {factor(ratio.low)} to {factor(ratio.high)}"
        if self.outcome != "unclear":
            return f"{self.gain} ({runs})"
        enough = next((n for n in _NEXT_RUN_COUNTS if n > ratio.n), None)
        hint = f"; more: {more.format(enough)}" if more and enough is not None else ""
        return f"{self.gain}, too few runs to tell ({runs}{hint})"

    def ratio_text(self, *, spreads: bool = True) -> str:
        """Return the ratio for a table, such as "2.1× (2.0 to 2.2)"; the range only with `spreads`."""
        ratio, outcome = self.ratio, self.outcome
        if ratio is None:
            return ""
        if outcome == "same":
            return NO_DRAFT
        text = f"{factor(ratio.median)}×" + (UNCLEAR if outcome == "unclear" else "")
        if ratio.n > 1 and spreads:
            text += f" ({factor(ratio.low)} to {factor(ratio.high)})"
        return text + (", a tie" if outcome == "tie" else "")

    @property
    def texts(self) -> tuple[str, str, str, str]:
        """Return speed, first token, acceptance and tokens per step for a table; empty texts for unknown values."""
        speed, first_ms, per_step = self.tokens_per_second, self.first_token_ms, self.tokens_per_verify
        return (
            f"{speed.median:.1f} tok/s" if speed is not None else "",
            f"{first_ms.median / 1e3:.2f} s" if first_ms is not None else "",
            f"{self.acceptance:.0%}" if self.acceptance is not None else "",
            f"{per_step:.1f}" if self.acceptance is not None and per_step is not None else "",
        )

    def as_json(self) -> dict[str, Any]:
        spreads = {
            "ratio": self.ratio,
            "tokens_per_second": self.tokens_per_second,
            "first_token_ms": self.first_token_ms,
        }
        return {
            **{name: s.as_json() if s is not None else None for name, s in spreads.items()},
            "acceptance": self.acceptance,
            "tokens_per_verify": self.tokens_per_verify,
            "draft_prompt_ms": self.draft_prompt_ms,
            "drafter": self.drafter,
            "verdict": self.outcome if self.ratio is not None else None,
        }


def _faster(ratio: Spread) -> str:
    speedup = Speedup(ratio.median, measured=True)
    if speedup.is_none:
        return NO_SPEEDUP
    return f"{times(speedup.ratio)} faster" if speedup.helps else f"slower, {times(speedup.ratio)} the speed"


def factor(ratio: float) -> str:
    """Return a ratio with two decimals, or one decimal from 1.95."""
    return f"{ratio:.1f}" if ratio >= 1.95 else f"{ratio:.2f}"


def measure(races: Sequence[Sequence[Round]], name: str, against: str) -> SideFigures:
    """Compare a side with another side over one or more races; all prompts have the same weight, per token.

    Each ratio compares two runs of the same round by their mean time per token over the prompts. So the range is
    between rounds, not between prompts.
    """
    runs = [round_[name] for rounds in races for round_ in rounds]
    means = _ns_per_round(races, name, against)
    drafted = sum(run.stats.draft_n for run in runs)
    verified = sum(run.stats.verify_steps for run in runs)
    emitted = sum(run.stats.predicted_n - 1 for run in runs if run.stats.verify_steps)
    return SideFigures(
        name=name,
        ratio=spread(other / mine for mine, other in means) if name != against else None,
        tokens_per_second=spread(1e9 / mine for mine, _ in means),
        first_token_ms=spread(run.stats.first_token_ms for run in runs),
        acceptance=sum(run.stats.draft_n_accepted for run in runs) / drafted if drafted else None,
        tokens_per_verify=emitted / verified if verified else None,
        draft_prompt_ms=statistics.median(run.stats.draft_prompt_ns / 1e6 for run in runs) if runs else 0.0,
        drafter=(runs[-1].stats.drafter if runs else None) or "none",
        is_idle=name != against and bool(runs) and not drafted and not any(run.stats.draft_prompt_ns for run in runs),
    )


def _ns_per_round(races: Sequence[Sequence[Round]], name: str, against: str) -> list[tuple[float, float]]:
    """Return the mean nanoseconds per token of both sides by round, over prompts that both sides measured."""
    means = []
    for rounds in zip(*races, strict=False):
        rates = [(one[name].stats.tokens_per_second, one[against].stats.tokens_per_second) for one in rounds]
        known = [(1e9 / mine, 1e9 / other) for mine, other in rates if mine and other]
        if known:
            means.append((statistics.fmean(mine for mine, _ in known), statistics.fmean(other for _, other in known)))
    return means


def speeds(measured: Iterable[SideFigures]) -> dict[str, Spread]:
    """Return the tokens per second of each measured side."""
    return {m.name: m.tokens_per_second for m in measured if m.tokens_per_second is not None}
