"""What no policy can beat that knows of a draft only how sure its model is of every token.

The oracle knows which tokens are right before they are checked. No one does: what there is to go by is the draft
model's confidence. Here a policy is given all that such a policy could ever know and more: every confidence before
anything was drafted, and in hindsight how often tokens of such a confidence were right over all the traces, and the
rate that makes the most of the very answer. What the target will say is all that it does not know. The distance from
here to the oracle belongs to the draft model; that from automatic drafting to here is its own.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from app.compare.upper_bound import Curve, Trace, plain_cost
from app.engine.auto.interpolation import envelope

_EDGES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.94, 0.96, 0.98, 0.99, 0.995, 0.999)
_DEPTHS = 3
"""The first drafted token, the second, and all that follow."""
_PRIOR = 1.0
_REFINEMENTS = 6


class Odds:
    """How often drafted tokens of a confidence were right, by place, over some traces; all of them labels."""

    def __init__(self, traces: Sequence[Trace]) -> None:
        self._counts = [[[_PRIOR, 2 * _PRIOR] for _ in range(len(_EDGES) + 1)] for _ in range(_DEPTHS)]
        for trace in traces:
            for n_right, confidences in zip(trace.matches, trace.confidences, strict=True):
                # Behind the first wrong token nothing was ever judged.
                for depth, confidence in enumerate(confidences[: n_right + 1]):
                    counts = self._at(depth, confidence)
                    counts[0] += depth < n_right
                    counts[1] += 1.0

    def probability(self, depth: int, confidence: float) -> float:
        """That a token is right, those before it being so."""
        right, seen = self._at(depth, confidence)
        return right / seen

    def _at(self, depth: int, confidence: float) -> list[float]:
        return self._counts[min(depth, _DEPTHS - 1)][bisect_right(_EDGES, confidence)]


def foresight_cost(trace: Trace, curve: Curve, odds: Odds) -> float:
    """The least cost of an answer with the draft model alone, everything but its acceptance known in advance.

    In every round it submits the draft with the most expected tokens minus rate times cost, where the rate is the one
    that the whole answer comes to: found by running through it again and again (Dinkelbach).
    """
    costs, cells = curve.costs(), curve.cell_costs()
    n_tokens = len(trace.text) - 1
    best = plain_cost(trace, curve)
    for _ in range(_REFINEMENTS):
        rate, spent, place = n_tokens / best, 0.0, 1
        while place <= n_tokens:
            n_past = len(trace.prompt) + place - 1
            padded = envelope([cost + n_past * cell for cost, cell in zip(costs, cells, strict=True)])
            length = _best_length(trace.confidences[place - 1][: n_tokens - place], padded, curve.draft, rate, odds)
            spent += padded[length + 1] + length * curve.draft
            place += min(trace.matches[place - 1], length) + 1
        if spent >= best:
            break
        best = spent
    return best


def _best_length(confidences: Sequence[float], batches: Sequence[float], draft: float, rate: float, odds: Odds) -> int:
    survival = tokens = 1.0
    best, length = tokens - rate * batches[1], 0
    for depth, confidence in enumerate(confidences):
        survival *= odds.probability(depth, confidence)
        tokens += survival
        value = tokens - rate * (batches[depth + 2] + (depth + 1) * draft)
        if value > best:
            best, length = value, depth + 1
    return length
