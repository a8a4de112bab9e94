"""Guards that limit the cost of drafting.

1. `Trial`: a statistical test turns the draft model off, and short probes turn it on again.
2. `Ledger`: a limit on what drafting may lose over any stretch of an answer.

`impossibility` in `app.engine.auto.rule` rules out drafting before the first draft. `AnswerSpeed` keeps a busy
machine from counting against drafts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(slots=True)
class Trial:
    """Decide from the advantages of steps whether the draft model is on.

    The advantage of a step is (tokens - rate * cost) - (1 - rate * single token's cost): its gain over a single token,
    in tokens. Mean and variance are exponential averages with factor `FORGETTING`. The model is turned off when the
    mean is `Z` standard errors below zero, after at least `PATIENCE` steps that lost `STAKE` tokens together. After
    `FIRST_GAP` tokens a probe uses it again, until the probe gains anything or loses `STAKE`. Each lost probe doubles
    the gap.
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
        """Start an answer; the last decision was about another text, so a probe comes immediately."""
        self._reset()
        self.gap, self.waited = self.FIRST_GAP, self.FIRST_GAP

    def allows_step(self) -> bool:
        """Return whether the next step may use the draft model."""
        return self.on or self.waited >= self.gap

    def observe_undrafted(self, n_tokens: int) -> None:
        """Count tokens emitted without the draft model."""
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
            self._reset()
        elif self.balance <= -self.STAKE:
            self.gap = min(2 * self.gap, self.LONGEST_GAP)
            self._wait()

    def _wait(self) -> None:
        self.waited, self.balance = 0, 0.0

    def _reset(self) -> None:
        self.n_steps, self.mean, self.variance, self.balance = 0, 0.0, 0.0, 0.0


@dataclass(slots=True)
class Ledger:
    """An account of gains and losses in single tokens' time, after conservative bandits (arXiv 1602.04282).

    A step with a draft adds tokens - cost / single token's cost; a single token adds `INTEREST`. The balance is capped.
    At zero, drafting stops until the balance allows a `PROBE`. So over any n tokens, drafting costs at most
    INTEREST * n + CAP + RESERVE single tokens and one step; stalls are not counted.
    """

    CAP = 10.0
    START = 5.0
    REFILL = 1.0
    """Smallest amount added to the remaining balance by a new answer, up to `START`; a draft model that is confident
    and wrong costs it in each answer."""
    ESTIMATED = 2.0
    """Initial balance of a pair whose costs are only estimated; its first answer adds `REFILL`."""
    INTEREST = 0.01
    PROBE = 1.0
    RESERVE = 2.0
    """Balance reserved for n-gram drafts, which cost nothing to make, after the draft model has used up the rest."""
    WEALTH = 1.0
    LEAST_WEALTH = 0.5
    """Tokens that n-gram drafts may lose, at first and after losses. In 120 replays without a draft model, twice as
    much gained up to 1% more, and 6 instead of 2 answers lost more than 2%."""

    balance: float = START
    blocked: bool = False
    """Whether the ledger excludes the draft model."""

    def begin(self) -> None:
        """Start an answer; it cannot lose the gains of the previous answer."""
        self.balance, self.blocked = min(self.START, max(0.0, self.balance) + self.REFILL), False

    @property
    def allows_any(self) -> bool:
        """Return whether any draft may be submitted."""
        return self.balance > -self.RESERVE

    @property
    def wealth(self) -> float:
        """Return the tokens that n-gram drafts may lose; see `Rule.best_submission`."""
        return max(self.LEAST_WEALTH, self.WEALTH + self.balance - self.START)

    def observe(self, tokens: int, cost_ns: float, single_ns: float, *, drafted: bool) -> None:
        change = tokens - cost_ns / single_ns if drafted else self.INTEREST * tokens
        self.balance = min(self.CAP, self.balance + change)
        if self.balance <= 0:
            self.blocked = True
        elif self.balance >= self.PROBE:
            self.blocked = False
