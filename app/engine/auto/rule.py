"""The rule: submit the draft that maximizes expected tokens minus the price of their time.

A draft of n tokens with survival products P_1 >= P_2 >= ... is expected to give N(n) = 1 + P_1 + ... + P_n tokens for
the cost T(n + 1) of its batch. With `rate` as the tokens per nanosecond of this text without the draft, its value is
N(n) - rate * T(n + 1). Maximizing that in each step gives the highest long-run speed if `rate` is that optimum itself
(renewal reward with Dinkelbach's price); a rate that follows the text comes close.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter

from app.core.units import counted
from app.engine.auto.curve import CostModel
from app.engine.sources import Source
from app.engine.types import MAX_DRAFT

LOOK_AHEAD = 12
"""Tokens to look ahead before drafting another token. If the second token of a batch is expensive and the next tokens
are not, looking one token ahead would never start."""
PLAUSIBLE_ACCEPTANCE = 0.97
WORTHWHILE = 1.2
"""Speedup at `PLAUSIBLE_ACCEPTANCE` from which drafts are tried. A trial costs a short answer several percent, and if
nearly perfect drafts gain less than a fifth, real drafts gain nothing."""


@dataclass(frozen=True, slots=True)
class Rule:
    """The rule at one position of a text, after `n_past` cached tokens.

    `rate` is the price of time in tokens per nanosecond, at least the speed without drafts.
    """

    costs: CostModel
    n_past: int
    rate: float

    def best_submission(self, products: Sequence[float], *, wealth: float = math.inf) -> tuple[float, int]:
        """Return the highest value over all lengths to submit, including 0, and that length.

        A gambler who maximizes the logarithm of his wealth (Kelly 1956) values a bet at its mean minus its variance
        over twice the wealth. Here the wealth is the number of tokens that drafts may lose; infinity gives the expected
        value. This also accounts for long drafts whose tokens are all wrong.
        """
        rate = self.rate
        costs = self.costs.batches_ns(len(products) + 1, self.n_past)
        tokens, square = 1.0, 0.0
        best, best_n = 1.0 - rate * costs[1], 0
        for n, product in enumerate(products, start=1):
            tokens += product
            square += (2 * n - 1) * product
            value = tokens - rate * costs[n + 1]
            value -= (square - (tokens - 1.0) ** 2) / (2.0 * wealth)
            if value > best:
                best, best_n = value, n
        return best, best_n

    def best_lookahead(self, products: Sequence[float], survival: float, limit: int) -> float:
        """Return the highest expected value of drafting at least one more token, up to `limit` in total.

        The cost of the drafted tokens, with these survival products, is sunk. Each further token is accepted with
        probability `survival` if all tokens before it are.
        """
        k = len(products)
        tokens = 1.0 + sum(products)
        product = products[-1] if products else 1.0
        best, rate, draft_ns = float("-inf"), self.rate, self.costs.draft_ns(self.n_past)
        start_ns = 0.0 if products else self.costs.draft_start_ns(self.n_past)
        batches = self.costs.batches_ns(k + 1 + min(LOOK_AHEAD, limit - k), self.n_past, smallest=k + 2)
        for j, batch_ns in enumerate(batches, start=1):
            product *= survival
            tokens += product
            best = max(best, tokens - rate * (batch_ns + start_ns + j * draft_ns))
        return best


def best_length(
    costs: CostModel, n_past: int, n_max: int, draft_ns: float, acceptance: float
) -> tuple[float, int, float]:
    """Return the best draft length at a constant acceptance a.

    Maximizes (1 + a + ... + a^n) * T(1) / (T(n + 1) + n * draft + start) over n. `start` is the fixed time
    per draft (0 if `draft_ns` is 0).

    Returns the speedup (below 1 if drafting loses), the length, and the time of a step in single tokens.
    """
    single = costs.target_ns(1, n_past)
    start_ns = costs.draft_start_ns(n_past) if draft_ns else 0.0
    steps, tokens, product = [], 1.0, 1.0
    for n in range(1, n_max + 1):
        product *= acceptance
        tokens += product
        step_cost = (costs.target_ns(n + 1, n_past) + n * draft_ns + start_ns) / single
        steps.append((tokens / step_cost, n, step_cost))
    return max(steps, key=itemgetter(0))


def ceiling(costs: CostModel, n_past: int, n_max: int, draft_ns: float) -> float:
    """Return the highest speedup of drafts accepted at `PLAUSIBLE_ACCEPTANCE`."""
    return max(1.0, best_length(costs, n_past, n_max, draft_ns, PLAUSIBLE_ACCEPTANCE)[0])


def gain_at(acceptance: float, costs: CostModel, n_max: int) -> float:
    """Return the share of time that the best draft length saves at this acceptance."""
    return 1.0 - 1.0 / max(1.0, best_length(costs, 0, n_max, costs.draft_ns(0), acceptance)[0])


def impossibility(costs: CostModel, n_past: int, n_max: int) -> str | None:
    """Return as a clause why no draft of the draft model can gain enough to be tried, if that is so."""
    speedup, n, step_cost = best_length(costs, n_past, n_max, costs.draft_ns(n_past), PLAUSIBLE_ACCEPTANCE)
    if speedup > WORTHWHILE:
        return None
    return f"a step with {counted(n, 'drafted token')} costs {step_cost:.1f}× one token here, so drafting cannot help"


def drafter_off(costs: CostModel, drafter: Source) -> str | None:
    """Return why automatic drafting does not use a drafter at these costs, if so."""
    if not impossibility(costs, 0, MAX_DRAFT):
        return None
    best = ceiling(costs, 0, MAX_DRAFT, costs.draft_ns(0))
    gain = f"the speedup would be {best:.2f}× (it needs {WORTHWHILE:g}×)" if best > 1 else "drafts would be slower"
    return drafter.turned_off(f"even at {PLAUSIBLE_ACCEPTANCE:.0%} acceptance {gain}")
