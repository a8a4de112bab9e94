"""What a cost curve means: where drafting starts to pay, how much it could bring, which fixed setting comes closest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.compare.replay import GRID_N_MAX, GRID_P_MIN, Curve, Trace, fixed, oracle_cost, plain_cost, replay
from app.engine.auto.curve import CostModel, CostProfile
from app.engine.auto.pair_statistics import PairStatistics
from app.engine.auto.strategy import AutomaticDrafting
from app.engine.drafters.ngram import NgramIndex
from app.engine.interfaces import Clock, ModelDrafting, Strategy
from app.engine.types import MIN_MATCH, DraftParams

_STEPS = 40


def break_even(plain: float, batch: float, n: int, draft: float) -> float | None:
    """The constant acceptance at which drafting n tokens every round costs as much as no draft.

    Solves (1 + c + ... + c^n) * plain = batch + n * draft for c by bisection; the left side grows with c.

    Args:
        plain: Cost of a batch of one row.
        batch: Cost of a batch of n + 1 rows.
        n: Drafted tokens.
        draft: Cost of each.

    Returns:
        An acceptance in [0, 1], or None where even perfect drafts lose.
    """
    needed = (batch + n * draft) / plain
    if needed > n + 1:
        return None
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if sum(middle**i for i in range(n + 1)) < needed:
            low = middle
        else:
            high = middle
    return high


@dataclass(frozen=True, slots=True)
class HeatMap:
    """Speed-up over no draft of every fixed setting on one text, and of what needs no setting.

    Attributes:
        n_tokens: Length of the text.
        n_max: The rows' settings.
        p_min: The columns' settings.
        speedups: One row per n_max, one column per p_min.
        automatic: Automatic drafting, starting from the same curve.
        oracle: The bound for these drafts, acceptance known in advance.
    """

    n_tokens: int
    n_max: tuple[int, ...]
    p_min: tuple[float, ...]
    speedups: tuple[tuple[float, ...], ...]
    automatic: float
    oracle: float

    @property
    def best(self) -> tuple[DraftParams, float]:
        """The best fixed setting, of equal ones the one that drafts least, and its speed-up."""
        speedup, shorter, p = max(
            (speedup, -n, p)
            for n, row in zip(self.n_max, self.speedups, strict=True)
            for p, speedup in zip(self.p_min, row, strict=True)
        )
        return DraftParams(-shorter, 0, p), speedup


def heat_map(
    trace: Trace,
    profile: CostProfile,
    n_max: Sequence[int] = GRID_N_MAX,
    p_min: Sequence[float] = GRID_P_MIN,
    *,
    lookup: bool = True,
    min_match: int = MIN_MATCH,
) -> HeatMap | None:
    """Play every fixed setting over one trace on a measured curve; None where there is no second token to draft.

    Args:
        trace: The text.
        profile: The curve.
        n_max: Settings to try.
        p_min: Likewise.
        lookup: Whether n-gram drafting takes part in automatic drafting, and in the bound.
        min_match: Tokens that must agree for it.
    """
    if len(trace.text) < 2:
        return None
    curve = Curve.of(profile)
    plain = plain_cost(trace, curve)
    depth = max(map(len, trace.confidences), default=0)
    n_max = tuple(n for n in n_max if n <= depth)
    speedups = tuple(
        tuple(plain / replay(trace, curve, fixed(DraftParams(n, 0, p))).cost for p in p_min) for n in n_max
    )
    memory = PairStatistics(CostModel(curve.profile()))

    def automatic(drafter: ModelDrafting, clock: Clock) -> Strategy:
        return AutomaticDrafting(memory, drafter, NgramIndex(min_match) if lookup else None, clock)

    return HeatMap(
        len(trace.text),
        n_max,
        tuple(p_min),
        speedups,
        automatic=plain / replay(trace, curve, automatic).cost,
        oracle=plain / oracle_cost(trace, curve, lookup=lookup, min_match=min_match),
    )
