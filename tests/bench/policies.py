"""Automatic drafting against fixed settings, no draft and the upper bound, by replay of the recorded traces.

python -m tests.bench.policies
"""

from __future__ import annotations

import sys
from pathlib import Path

from app.engine.auto.curve import CostModel
from app.engine.auto.pair_statistics import PairStatistics
from app.engine.auto.strategy import AutomaticDrafting
from app.engine.drafters.ngram import NgramIndex
from app.engine.interfaces import Clock, ModelDrafting, Strategy
from tests.recordings import Curve, curves, load_traces, oracle_cost, plain_cost, traces
from tests.replay import StrategyFactory, best_fixed, fixed, replay


def memory_for(curve: Curve) -> PairStatistics:
    """Return what a first calibration of that machine finds."""
    return PairStatistics(CostModel(curve.profile()))


def automatic(memory: PairStatistics, *, model: bool = True, lookup: bool = True) -> StrategyFactory:
    """Automatic drafting over one memory."""

    def make(drafter: ModelDrafting, clock: Clock) -> Strategy:
        return AutomaticDrafting(memory, drafter if model else None, NgramIndex() if lookup else None, clock)

    return make


def main() -> None:
    """Print a table a machine."""
    all_traces = load_traces(Path(sys.argv[1])) if len(sys.argv) > 1 else traces()
    for name, curve in curves().items():
        plain = [plain_cost(t, curve) for t in all_traces]
        params, _ = best_fixed(all_traces, curve)
        rows = {
            "best fixed": [replay(t, curve, fixed(params)).cost for t in all_traces],
            "best a prompt": [best_fixed([t], curve)[1] for t in all_traces],
        }
        for label, model, lookup in (
            ("auto model", True, False),
            ("auto n-gram drafting", False, True),
            ("auto", True, True),
        ):
            memory = memory_for(curve)
            make = automatic(memory, model=model, lookup=lookup)
            rows[label] = [replay(t, curve, make).cost for t in all_traces]
        rows["bound, model"] = [oracle_cost(t, curve) for t in all_traces]
        rows["bound"] = [oracle_cost(t, curve, lookup=True) for t in all_traces]
        print(f"\n{name}: {curve.name}; best fixed n_max {params.n_max}, p_min {params.p_min}")
        print(" " * 14 + "   all  " + " ".join(f"{t.name[:9]:>9}" for t in all_traces))
        for label, costs in rows.items():
            ratios = " ".join(f"{p / c:9.3f}" for p, c in zip(plain, costs, strict=True))
            print(f"{label:14} {sum(plain) / sum(costs):6.3f} {ratios}")


if __name__ == "__main__":
    main()
