"""Speeds and speedups of a race: medians, spreads, and when a difference is more than noise."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from app.engine.drafting_report import NO_DRAFT, NO_SPEEDUP, Speedup, times

if TYPE_CHECKING:
    # Races load the engine, which reading old results does not need.
    from app.compare.race import Round, Run

NOISE = 0.03
"""Differences below this share are none, however often they are seen: clocks, caches and other programs make them."""

FEW_NOISE = 0.10
"""The same for what was measured fewer than `_FEW` times, which tells no spread of its own."""
_FEW = 3
_REACH = (6.36, 1.34, 0.74, 0.56)
"""For 2 to 5 measurements: how many times their range the true value is away from their median at most, in 95 of 100
cases. The substitute t-test of E. Lord (Biometrika 34, 1947) with the median in place of the mean, by a simulation of
a million normal samples each."""
_SURE = 0.95
"""In so many cases the true value is where it is said to be."""
_ENOUGH = (3, 10, 30, 100)
"""Numbers of runs to try next where fewer did not tell."""
WHOLE = "all"
"""Stands for all kinds of text together."""
UNCLEAR = "?"
"""Stands in a table behind a ratio of too few runs to tell."""
UNDRAFTED = NO_DRAFT
"""Stands in a table for the ratio of a side that drafted nothing."""

Outcome = Literal["faster", "slower", "tie", "same", "unclear", "unknown"]
"""What can be said of a ratio: a difference, none, none because both sides did the same work; "unclear" where the runs
are too few to tell, "unknown" where nothing was measured."""

Work = Literal["own", "plain", "read"]
"""Work of a side: drafting ("own"), no drafts ("plain"), or only the draft model's reading of the prompt ("read")."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Some measurements of one thing.

    Attributes:
        median: The middle one.
        low: The smallest.
        high: The largest.
        n: How many there are, at least one.
        likely: Where the true median lies, in 95 of 100 cases; anywhere as long as nothing tells.
    """

    median: float
    low: float
    high: float
    n: int
    likely: tuple[float, float] = (0.0, math.inf)

    @property
    def width(self) -> float:
        return self.high - self.low

    def as_json(self) -> dict[str, Any]:
        return {"median": self.median, "low": self.low, "high": self.high, "n": self.n}


def spread(values: Iterable[float | None]) -> Spread | None:
    """Median and spread of what was measured; None if nothing was."""
    known = sorted(value for value in values if value is not None)
    return Spread(statistics.median(known), known[0], known[-1], len(known), _likely(known)) if known else None


def _likely(known: Sequence[float]) -> tuple[float, float]:
    """Return the 95% interval of the median of sorted positive measurements.

    Of a few it is the range that tells; of more the middle ones, which come closer with every run, however far away
    a run falls in which the machine stood still.
    """
    n, low, high = len(known), known[0], known[-1]
    if n < 2 or low <= 0.0:
        return 0.0, math.inf
    if n < len(_REACH) + 2:
        reach, median = (high / low) ** _REACH[n - 2], statistics.median(known)
        return median / reach, median * reach
    return _between(known), _between(known[::-1])


def _between(known: Sequence[float]) -> float:
    """One end of the sign test's interval for a median, at least 6 measurements told from that end.

    Interpolated between two of them by T. P. Hettmansperger and S. J. Sheather (Statistics & Probability Letters 4,
    1986), as there is seldom one at which it holds in just 95 of 100 cases.
    """
    n = len(known)

    def sure(k: int) -> float:
        """In what share of cases the median is between the kth smallest and the kth largest."""
        return 1 - 2 * sum(math.comb(n, fewer) for fewer in range(k)) / (1 << n)

    k = next(k for k in itertools.count(1) if sure(k + 1) < _SURE)
    share = (sure(k) - _SURE) / (sure(k) - sure(k + 1))
    weight = (n - k) * share / (k + (n - 2 * k) * share)
    return (1 - weight) * known[k - 1] + weight * known[k]


@dataclass(frozen=True, slots=True)
class Measured:
    """Figures of one contender over some rounds.

    Attributes:
        name: The contender.
        ratio: Its speed over the first contender's, round by round; None for that one, and where none was measured.
        tokens_per_second: Of the tokens after the first.
        first_token_ms: Milliseconds to the first token.
        acceptance: Accepted over drafted tokens, all rounds together; None if nothing was drafted.
        tokens_per_verify: Tokens emitted per verify round, all rounds together.
        draft_prompt_ms: Milliseconds of the draft model's reading of the prompt, which count against it.
        drafter: Sources of its drafts.
        work: What it did besides generating single tokens.
    """

    name: str
    ratio: Spread | None
    tokens_per_second: Spread | None
    first_token_ms: Spread | None
    acceptance: float | None
    tokens_per_verify: float | None
    draft_prompt_ms: float
    drafter: str
    work: Work = "own"

    def as_json(self) -> dict[str, Any]:
        spreads = {
            "ratio": self.ratio,
            "tokens_per_second": self.tokens_per_second,
            "first_token_ms": self.first_token_ms,
        }
        out: dict[str, Any] = {name: s.as_json() if s is not None else None for name, s in spreads.items()}
        out |= {
            "acceptance": self.acceptance,
            "tokens_per_verify": self.tokens_per_verify,
            "draft_prompt_ms": self.draft_prompt_ms,
            "drafter": self.drafter,
            "verdict": outcome(self.ratio, work=self.work) if self.ratio is not None else None,
        }
        return out


def measure(races: Sequence[Sequence[Round]], name: str, against: str) -> Measured:
    """Measure a contender over one or more races; each prompt counts alike, per token.

    Per round the mean time a token is taken over the prompts, and the ratio is between two such means of the same
    round, whose runs lie next to each other in time. The spread is therefore that between rounds, not that between
    prompts. Where a contender drafted, but not on all prompts, those on which nothing was drafted make it neither
    faster nor slower: for the ratio, what both took for them is averaged.

    Args:
        races: The rounds of each race, as many of each as should count.
        name: The contender.
        against: The one its ratio is taken against.
    """
    runs = [round_[name] for rounds in races for round_ in rounds if name in round_]
    work = _work(runs) if name != against else "own"
    means = _per_round(races, name, against)
    pooled = _per_round(races, name, against, pooled=True) if work == "own" else means
    drafted = sum(run.stats.draft_n for run in runs)
    verified = sum(run.stats.verify_steps for run in runs)
    emitted = sum(run.stats.predicted_n - 1 for run in runs if run.stats.verify_steps)
    return Measured(
        name=name,
        ratio=spread(other / mine for mine, other in pooled) if name != against else None,
        tokens_per_second=spread(1e9 / mine for mine, _ in means),
        first_token_ms=spread(run.stats.first_token_ns / 1e6 for run in runs),
        acceptance=sum(run.stats.draft_n_accepted for run in runs) / drafted if drafted else None,
        tokens_per_verify=emitted / verified if verified else None,
        draft_prompt_ms=statistics.median(run.stats.draft_prompt_ns / 1e6 for run in runs) if runs else 0.0,
        drafter=runs[-1].drafter if runs else "none",
        work=work,
    )


def _work(runs: Sequence[Run]) -> Work:
    # A server tells no tokens, and its work is its own.
    if not runs or any(run.stats.draft_n or not run.tokens for run in runs):
        return "own"
    return "read" if any(run.stats.draft_prompt_ns for run in runs) else "plain"


def _is_plain(rounds: Sequence[Round], name: str) -> bool:
    return _work([round_[name] for round_ in rounds if name in round_]) == "plain"


def speeds(measured: Iterable[Measured]) -> dict[str, Spread]:
    """Tokens per second by contender, of those that have any."""
    return {m.name: m.tokens_per_second for m in measured if m.tokens_per_second is not None}


def _per_round(
    races: Sequence[Sequence[Round]], name: str, against: str, *, pooled: bool = False
) -> list[tuple[float, float]]:
    """Mean nanoseconds a token of both, round by round, over the prompts for which both have one.

    Args:
        races: The rounds of each race.
        name: One contender.
        against: The other.
        pooled: Whether races in which both did the same work are taken to have taken both the same time.
    """
    alike = [pooled and all(_is_plain(rounds, side) for side in (name, against)) for rounds in races]
    means = []
    for index in range(min(map(len, races), default=0)):
        known = []
        for rounds, is_alike in zip(races, alike, strict=True):
            round_ = rounds[index]
            mine, other = (round_[side].ns_per_token if side in round_ else None for side in (name, against))
            if mine is not None and other is not None:
                mean = (mine + other) / 2
                known.append((mean, mean) if is_alike else (mine, other))
        if known:
            means.append((statistics.fmean(mine for mine, _ in known), statistics.fmean(other for _, other in known)))
    return means


def noise(spread: Spread) -> float:
    """The share below which a difference from this is none: its own spread, never less than what clocks make."""
    width = spread.width / spread.median if spread.median > 0 else 0.0
    return max(NOISE if spread.n >= _FEW else FEW_NOISE, width)


def outcome(ratio: Spread | None, *, work: Work = "own") -> Outcome:
    """Return whether a ratio is a difference beyond chance and noise, none, or unknown.

    Args:
        ratio: Round by round; None where nothing was measured.
        work: See `Measured.work`.
    """
    if ratio is None:
        return "unknown"
    if work == "plain":
        return "same"
    low, high = ratio.likely
    if low >= 1 / (1 + NOISE) and high <= 1 + NOISE:
        return "tie"
    if high < 1.0 and ratio.median <= 1 - NOISE:
        return "slower"
    if low > 1.0 and ratio.median >= 1 + NOISE:
        return "unclear" if work == "read" else "faster"
    return "unclear"


def is_clear(ratio: Spread | None, *, work: Work = "own") -> bool:
    """Return whether further rounds would tell nothing new; see `outcome`."""
    return outcome(ratio, work=work) not in ("unclear", "unknown")


def verdict(ratio: Spread | None, more: str = "--repeat {}", *, work: Work = "own") -> str:
    """Return one sentence, such as "2.1× faster (3 runs each, alternating: 2.0 to 2.2)".

    Args:
        ratio: Round by round; None where nothing was measured.
        more: How to get more rounds, with a place for their number; "" where there is no way.
        work: See `Measured.work`.
    """
    if ratio is None:
        return "not measured: the answers are too short"
    what, speedup = outcome(ratio, work=work), Speedup(ratio.median, measured=True)
    runs = "1 run each"
    if ratio.n > 1:
        runs = f"{ratio.n} runs each, alternating: {factor(ratio.low)} to {factor(ratio.high)}"
    if what == "same" or (work == "read" and ratio.median >= 1 + NOISE):
        return f"{NO_SPEEDUP}: nothing was drafted ({runs})"
    if what == "unclear":
        enough = next((n for n in _ENOUGH if n > ratio.n), None)
        hint = f"; more: {more.format(enough)}" if more and enough is not None else ""
        return f"{_faster(speedup)}, too few runs to tell ({runs}{hint})"
    return f"{NO_SPEEDUP if what == 'tie' else _faster(speedup)} ({runs})"


def _faster(speedup: Speedup) -> str:
    if speedup.is_none:
        return NO_SPEEDUP
    return f"{times(speedup.ratio)} faster" if speedup.helps else f"slower, {times(speedup.ratio)} the speed"


def in_figures(ratio: Spread, *, work: Work = "own", spreads: bool = True) -> str:
    """A ratio for a table, such as "2.1× (2.0 to 2.2)", with a word where it is no difference.

    Where nothing was drafted there is only that to tell: what a clock made of the same work twice is no result.

    Args:
        ratio: What was measured.
        work: What the side did.
        spreads: Whether the smallest and the largest are told as well.
    """
    what = outcome(ratio, work=work)
    if what == "same":
        return UNDRAFTED
    text = f"{factor(ratio.median)}×" + (UNCLEAR if what == "unclear" else "")
    if ratio.n > 1 and spreads:
        text += f" ({factor(ratio.low)} to {factor(ratio.high)})"
    return text + (", a tie" if what == "tie" else "")


def factor(ratio: float) -> str:
    """A ratio with the digits that matter: two decimals near 1, one further up."""
    return f"{ratio:.1f}" if ratio >= 1.95 else f"{ratio:.2f}"


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one side as text for a table; "" for unknown ones.

    Attributes:
        speed: Tokens a second.
        first_token: Seconds to the first token.
        acceptance: Accepted over drafted tokens.
        tokens_per_step: Tokens per step, if anything was drafted.
    """

    speed: str
    first_token: str
    acceptance: str
    tokens_per_step: str


def figures_of(side: Measured) -> Figures:
    """A side's medians, as every table has them."""
    speed, first = side.tokens_per_second, side.first_token_ms
    drafted = side.acceptance is not None and side.tokens_per_verify is not None
    return Figures(
        speed=f"{speed.median:.1f} tok/s" if speed is not None else "",
        first_token=f"{first.median / 1e3:.2f} s" if first is not None else "",
        acceptance=f"{side.acceptance:.0%}" if side.acceptance is not None else "",
        tokens_per_step=f"{side.tokens_per_verify:.1f}" if drafted else "",
    )
