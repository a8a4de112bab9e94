"""The guards that keep drafting from costing more than it gains.

1. `impossibility`: if even nearly perfect drafts would gain little at the measured costs, nothing is tried.
2. `Trial`: a statistical test turns the draft model off, and short probes turn it on again.
3. `Ledger`: a limit on what drafting may lose over any stretch of an answer.

`app.engine.auto.stalls` keeps drafts from being blamed for a busy machine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from operator import itemgetter

from app.engine.auto.curve import CostModel

PLAUSIBLE_ACCEPTANCE = 0.97
WORTHWHILE = 1.2
"""Speedup of nearly perfect drafts from which real ones are tried. Trying costs a short answer several percent, and
where perfect drafts gain less than a fifth, real ones gain nothing."""


def ceiling(costs: CostModel, n_past: int, n_max: int, draft_ns: float) -> float:
    """Return the highest speedup of drafts accepted at `PLAUSIBLE_ACCEPTANCE`."""
    return max(1.0, best_step(costs, n_past, n_max, draft_ns, PLAUSIBLE_ACCEPTANCE)[0])


def gain_at(acceptance: float, costs: CostModel, n_max: int) -> float:
    """Return the share of time that the best draft length saves at this acceptance."""
    return 1.0 - 1.0 / max(1.0, best_step(costs, 0, n_max, costs.draft_ns(0), acceptance)[0])


def best_step(
    costs: CostModel, n_past: int, n_max: int, draft_ns: float, acceptance: float
) -> tuple[float, int, float]:
    """Return the best draft length at a constant acceptance a.

    Maximizes (1 + a + ... + a^n) * T(1) / (T(n + 1) + n * draft) over n, with T of the cheapest batch at least as wide.

    Args:
        costs: Costs of batches.
        n_past: Tokens in the cache.
        n_max: Longest draft, at least one token.
        draft_ns: Nanoseconds of a drafted token.
        acceptance: a.

    Returns:
        The speedup (below 1 where drafting loses), the length, and the time of a step in single tokens.
    """
    single = costs.target_ns(1, n_past)
    steps, tokens, product = [], 1.0, 1.0
    for n in range(1, n_max + 1):
        product *= acceptance
        tokens += product
        takes = (costs.padded_ns(n + 1, n_past) + n * draft_ns) / single
        steps.append((tokens / takes, n, takes))
    return max(steps, key=itemgetter(0))


def impossibility(costs: CostModel, n_past: int, n_max: int) -> str:
    """Return why no draft of the draft model can gain enough to be tried, as a clause; "" if one can."""
    best, n, takes = best_step(costs, n_past, n_max, costs.draft_ns(n_past), PLAUSIBLE_ACCEPTANCE)
    if best > WORTHWHILE:
        return ""
    return f"verifying {n + 1} tokens costs {takes:.1f}× one token here, so drafting cannot help"


@dataclass(slots=True)
class Trial:
    """Decide from the advantages of steps whether the draft model is on.

    The advantage of a step is (tokens - rate * cost) - (1 - rate * single token's cost): its gain over a single token,
    in tokens. Mean and variance forget with `FORGETTING`. The model goes off when the mean is below zero by `Z`
    standard errors after at least `PATIENCE` steps that lost `STAKE` tokens together. It comes back for a probe after
    `FIRST_GAP` tokens, until that has gained or lost `STAKE`; each probe that loses doubles the gap.
    """

    FORGETTING = 0.8
    Z = 1.0
    PATIENCE = 3
    STAKE = 0.3
    FIRST_GAP = 16
    LONGEST_GAP = 256

    on: bool = True
    n_steps: int = 0
    mean: float = 0.0
    variance: float = 0.0
    balance: float = 0.0
    gap: int = FIRST_GAP
    waited: int = 0

    def begin(self) -> None:
        """Start an answer; the last verdict was about another text, so a probe comes at once."""
        self._forget()
        self.gap, self.waited = self.FIRST_GAP, self.FIRST_GAP

    def wants_step(self) -> bool:
        """Return whether the draft model may take part in the next step."""
        return self.on or self.waited >= self.gap

    def observe_without(self, n_tokens: int) -> None:
        """Count tokens that were emitted without the draft model."""
        if not self.on:
            self.waited += n_tokens

    def observe_step(self, advantage: float) -> None:
        """Learn from a step that used the draft model."""
        self.balance += advantage
        if not self.on:
            self._judge_probe()
            return
        self.balance = min(0.0, self.balance)
        self.n_steps += 1
        forgetting = self.FORGETTING if self.n_steps > 1 else 0.0
        delta = advantage - self.mean
        self.mean += (1 - forgetting) * delta
        self.variance = forgetting * (self.variance + (1 - forgetting) * delta * delta)
        if self.n_steps >= self.PATIENCE and self.balance <= -self.STAKE:
            effective = (1 - self.FORGETTING**self.n_steps) / (1 - self.FORGETTING)
            if self.mean + self.Z * math.sqrt(self.variance / effective) < 0:
                self.on = False
                self._wait()

    def _judge_probe(self) -> None:
        if self.balance > 0:
            self.on, self.gap = True, self.FIRST_GAP
            self._forget()
        elif self.balance <= -self.STAKE:
            self.gap = min(2 * self.gap, self.LONGEST_GAP)
            self._wait()

    def _wait(self) -> None:
        self.waited, self.balance = 0, 0.0

    def _forget(self) -> None:
        self.n_steps, self.mean, self.variance, self.balance = 0, 0.0, 0.0, 0.0


@dataclass(slots=True)
class Ledger:
    """An account of gains and losses in single tokens' time, after conservative bandits (arXiv 1602.04282).

    A step with a draft adds tokens - cost / single token's cost; a single token adds `INTEREST`. The balance is capped,
    and at zero drafting stops until a probe is affordable. Over any stretch of n tokens, drafting then costs at most
    INTEREST * n + CAP + RESERVE single tokens and one step, stalls (`Stalls`) not counted.
    """

    CAP = 10.0
    START = 5.0
    REFILL = 1.0
    """Least that an answer adds to what the one before left of `START`; a confident and wrong draft model costs it in
    each answer."""
    INTEREST = 0.01
    PROBE = 1.0
    RESERVE = 2.0
    """Left to n-gram drafts, which cost nothing to make, when the draft model has used up the rest."""
    WEALTH = 1.0
    LEAST_WEALTH = 0.5
    """Wealth of n-gram drafts at first, and after losses. In 120 replays without a draft model, twice as much gained up
    to 1% more, and 6 instead of 2 answers lost more than 2%."""

    balance: float = START
    blocked: bool = False

    def begin(self) -> None:
        """Start an answer; gains of the last one cannot be lost in this one."""
        self.balance, self.blocked = min(self.START, max(0.0, self.balance) + self.REFILL), False

    @property
    def allows_any(self) -> bool:
        """Return whether any draft may be submitted."""
        return self.balance > -self.RESERVE

    @property
    def allows_model(self) -> bool:
        """Return whether the draft model may take part."""
        return not self.blocked

    @property
    def wealth(self) -> float:
        """Tokens that n-gram drafts may lose; see `Rule.best_submission`."""
        return max(self.LEAST_WEALTH, self.WEALTH + self.balance - self.START)

    def observe(self, tokens: int, cost_ns: float, single_ns: float, *, drafted: bool) -> None:
        """Add one step."""
        change = tokens - cost_ns / single_ns if drafted else self.INTEREST * tokens
        self.balance = min(self.CAP, self.balance + change)
        if self.balance <= 0:
            self.blocked = True
        elif self.balance >= self.PROBE:
            self.blocked = False
