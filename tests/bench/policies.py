"""Compare automatic drafting with fixed settings, no draft and the upper bound, by replay of the recorded answers.

python -m tests.bench.policies
"""

from __future__ import annotations

import sys
from copy import deepcopy
from pathlib import Path

from app.engine.auto.cost_profile import CostProfile
from app.engine.auto.curve import CostModel
from app.engine.auto.pair_statistics import PairStatistics
from app.engine.auto.strategy import AutomaticDrafting
from app.engine.draft_source import DraftSource
from app.engine.interfaces import Clock, Strategy
from app.engine.ngram import NgramIndex
from tests.recordings import baseline_cost, curves, load_traces, lowest_cost, traces
from tests.replay import StrategyFactory, best_fixed, chain, fixed, replay


def measured(curve: CostProfile) -> PairStatistics:
    """Return the statistics of a pair after a first measurement."""
    return PairStatistics(CostModel(deepcopy(curve)))


def automatic(statistics: PairStatistics, *, model: bool = True, ngram: bool = True) -> StrategyFactory:
    """Return a factory of automatic drafting that shares these statistics."""

    def make(drafter: DraftSource, clock: Clock) -> Strategy:
        return AutomaticDrafting(statistics, chain(drafter if model else None, NgramIndex() if ngram else None), clock)

    return make


def main() -> None:
    """Print a table per machine."""
    all_traces = load_traces(Path(sys.argv[1])) if len(sys.argv) > 1 else traces()
    for name, curve in curves().items():
        baseline = [baseline_cost(t, curve) for t in all_traces]
        params, _ = best_fixed(all_traces, curve)
        rows = {
            "best fixed": [replay(t, curve, fixed(params)).cost for t in all_traces],
            "best per prompt": [best_fixed([t], curve)[1] for t in all_traces],
        }
        for label, model, ngram in (("auto, model", True, False), ("auto, n-gram", False, True), ("auto", True, True)):
            make = automatic(measured(curve), model=model, ngram=ngram)
            rows[label] = [replay(t, curve, make).cost for t in all_traces]
        rows["upper bound, model"] = [lowest_cost(t, curve) for t in all_traces]
        rows["upper bound"] = [lowest_cost(t, curve, ngram=True) for t in all_traces]
        print(f"\n{name}; best fixed n_max {params.n_max}, p_min {params.p_min}")
        print(" " * 18 + "   all  " + " ".join(f"{t.name[:9]:>9}" for t in all_traces))
        for label, costs in rows.items():
            ratios = " ".join(f"{p / c:9.3f}" for p, c in zip(baseline, costs, strict=True))
            print(f"{label:18} {sum(baseline) / sum(costs):6.3f} {ratios}")


if __name__ == "__main__":
    main()
