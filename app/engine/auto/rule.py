"""The rule: submit the draft that maximizes expected tokens minus the price of their time.

A draft of n tokens with survival products P_1 >= P_2 >= ... is expected to give N(n) = 1 + P_1 + ... + P_n tokens for
the cost T(n + 1) of its batch. With `rate` the tokens per nanosecond that this text gives anyway, its value is
N(n) - rate * T(n + 1). Maximizing that in each step gives the highest long-run speed if `rate` is that optimum itself
(renewal reward with Dinkelbach's price); a rate that follows the text comes close.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from app.engine.auto.curve import CostModel

LOOK_AHEAD = 12
"""Tokens to look ahead before drafting another one. If the second token of a batch is expensive and the next ones are
not, looking one ahead would never start."""


@dataclass(frozen=True, slots=True)
class Rule:
    """The rule at one position of a text.

    Attributes:
        costs: Costs of batches and drafted tokens.
        n_past: Tokens in the target's cache.
        rate: Tokens per nanosecond, at least those with no draft.
    """

    costs: CostModel
    n_past: int
    rate: float

    def best_submission(self, products: Sequence[float], *, wealth: float = math.inf) -> tuple[float, int]:
        """Return the highest value over all lengths to submit, 0 included, and that length.

        Limited wealth lowers the value of a draft by the variance of its tokens over twice the wealth: the second term
        of the expected logarithm (Kelly 1956). It also allows for odds of a long draft that are wrong together.

        Args:
            products: Survival products of the draft.
            wealth: Tokens that may be lost.
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

    def best_ahead(self, products: Sequence[float], survival: float, limit: int) -> float:
        """Return the highest value that drafting at least one more token is expected to reach.

        Args:
            products: Survival products of the tokens drafted already; their cost is sunk.
            survival: Probability that a further token is accepted if those before it are.
            limit: Most tokens in all.
        """
        k = len(products)
        tokens = 1.0 + sum(products)
        product = products[-1] if products else 1.0
        best, rate, draft_ns = float("-inf"), self.rate, self.costs.draft_ns(self.n_past)
        batches = self.costs.padded_batches_ns(k + 2, k + 1 + min(LOOK_AHEAD, limit - k), self.n_past)
        for j, batch_ns in enumerate(batches, start=1):
            product *= survival
            tokens += product
            best = max(best, tokens - rate * (batch_ns + j * draft_ns))
        return best
