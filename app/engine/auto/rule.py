"""The rule: submit the draft that maximises expected tokens minus the price of their time.

A draft of n tokens with survival products P_1 >= P_2 >= ... is expected to bring N(n) = 1 + P_1 + ... + P_n tokens for
the cost T(n + 1) of its batch. With `rate` the tokens per nanosecond that the text is giving anyway, its value is
N(n) - rate * T(n + 1). Maximising that value in every round gives the best long-run tokens per second when `rate` is
that optimum itself (renewal reward with Dinkelbach's price); a rate that is followed locally comes close.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from app.engine.auto.curve import CostModel

LOOK_AHEAD = 12
"""How many tokens ahead to look when asking whether to draft another one. Where the second row is dear and those behind
it are not, whoever looks only one ahead never starts."""


@dataclass(frozen=True, slots=True)
class Rule:
    """The rule at one place of a text.

    Attributes:
        costs: What batches and drafted tokens cost.
        n_past: Tokens in the target's cache.
        rate: Tokens per nanosecond, at least plain decoding's.
        last_rows: Width of the batch before; another width costs a change.
    """

    costs: CostModel
    n_past: int
    rate: float
    last_rows: int

    def best_submission(
        self, products: Sequence[float], *, hope: float = 1.0, wealth: float = math.inf
    ) -> tuple[float, int]:
        """The highest value over every length to submit, 0 included, and that length.

        Where wealth is limited, a draft is worth less by the variance of its tokens over twice the wealth: the second
        term of the logarithm's expectation, which is what somebody maximises who must not be ruined on the way (Kelly
        1956). The odds of a long draft's tokens also err together, which this allows for.

        Args:
            products: Survival products of the draft.
            hope: What rows beyond the first may cost, as a share of what is known.
            wealth: Tokens that may be lost.
        """
        rate = self.rate
        costs = self.costs.batches_ns(len(products) + 1, self.n_past, self.last_rows)
        tokens, square = 1.0, 0.0
        plain_ns = costs[1]
        best, best_n = 1.0 - rate * plain_ns, 0
        for n, product in enumerate(products, start=1):
            tokens += product
            square += (2 * n - 1) * product
            value = tokens - rate * (plain_ns + hope * (costs[n + 1] - plain_ns))
            value -= (square - (tokens - 1.0) ** 2) / (2.0 * wealth)
            if value > best:
                best, best_n = value, n
        return best, best_n

    def best_ahead(self, products: Sequence[float], survival: float, limit: int) -> float:
        """The highest value that drafting on, at least one token more, is expected to reach.

        Args:
            products: Survival products of what is drafted already; its cost is sunk.
            survival: Probability that a further token is accepted, given that those before it are.
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
