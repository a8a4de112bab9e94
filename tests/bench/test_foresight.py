"""The bound on what confidences alone can bring, held against the oracle and against what drafts by them."""

from __future__ import annotations

import pytest

from app.compare.upper_bound import Trace, oracle_cost, plain_cost
from tests.bench.foresight import Odds, foresight_cost
from tests.bench.policies import automatic, memory_for
from tests.recordings import curves, traces
from tests.replay import replay


@pytest.mark.parametrize("machine", ["cpu_bf16", "ada"])
def test_it_lies_between_the_oracle_and_automatic_drafting(machine: str) -> None:
    curve, odds = curves()[machine], Odds(traces())
    oracle = sum(oracle_cost(trace, curve) for trace in traces())
    foresight = sum(foresight_cost(trace, curve, odds) for trace in traces())
    auto = sum(replay(trace, curve, automatic(memory_for(curve), lookup=False)).cost for trace in traces())

    assert oracle < foresight < auto


def test_where_confidence_tells_everything_it_is_the_oracle() -> None:
    curve, n = curves()["ada"], 60
    matches = tuple(min(5, n - place - 2) for place in range(n - 1))
    told = tuple(tuple(0.9999 if depth < right else 0.01 for depth in range(8)) for right in matches)
    trace = Trace("told", "code", (1, 2, 3), tuple(range(n)), matches, told)

    assert foresight_cost(trace, curve, Odds([trace] * 50)) <= 1.03 * oracle_cost(trace, curve)


def test_where_drafts_are_hopeless_it_is_plain_decoding() -> None:
    curve, odds = curves()["hopeless"], Odds(traces())
    assert foresight_cost(traces()[0], curve, odds) == plain_cost(traces()[0], curve)
