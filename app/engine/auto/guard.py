"""Never slower: the four guards that keep drafting from costing more than it brings.

1. `impossibility`: if even nearly perfect drafts would win little on the measured costs, nothing is tried.
2. `Trial`: a patient statistical test turns drafting off, and short probes turn it on again.
3. `Ledger`: a hard ceiling on what drafting may ever lose over any stretch of an answer.
4. What 1 to 3 found is kept between runs by whoever owns them.

`Curiosity` is what keeps them from being wrong for good, and `app.engine.auto.stalls` from blaming drafts for a busy
machine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from operator import itemgetter

from app.engine.auto.curve import CostModel

PLAUSIBLE_ACCEPTANCE = 0.97
WORTHWHILE = 1.2
"""What nearly perfect drafts must bring for real ones to be tried: finding out that they do not pay costs a short
answer several percent, and where perfection brings less than a fifth, they do not."""
_LITTLE = 1.02
"""Up to here a gain is none."""


def ceiling(costs: CostModel, n_past: int, n_max: int, draft_ns: float) -> float:
    """The best speed-up over plain decoding that drafts accepted at `PLAUSIBLE_ACCEPTANCE` could bring."""
    return max(1.0, best_round(costs, n_past, n_max, draft_ns, PLAUSIBLE_ACCEPTANCE)[0])


def gain_at(acceptance: float, costs: CostModel, n_max: int) -> float:
    """Share of plain decoding's time that the best draft length saves where every token is right so often."""
    return 1.0 - 1.0 / max(1.0, best_round(costs, 0, n_max, costs.draft_ns(0), acceptance)[0])


def best_round(
    costs: CostModel, n_past: int, n_max: int, draft_ns: float, acceptance: float
) -> tuple[float, int, float]:
    """The most that a draft brings where each of its tokens, those before it being right, is right so often.

    (1 + a + ... + a^n) * T(1) / (T(n + 1) + n * draft), at its highest over n. Where a wider batch is cheaper, T is
    that one's.

    Args:
        costs: Of batches.
        n_past: Tokens that the cache holds.
        n_max: The longest draft, at least one token.
        draft_ns: Nanoseconds of a drafted token.
        acceptance: a.

    Returns:
        The speed-up, which is below 1 where drafting loses, the draft's tokens, and its time in plain tokens.
    """
    plain = costs.target_ns(1, n_past)
    rounds, tokens, product = [], 1.0, 1.0
    for n in range(1, n_max + 1):
        product *= acceptance
        tokens += product
        takes = (costs.padded_ns(n + 1, n_past) + n * draft_ns) / plain
        rounds.append((tokens / takes, n, takes))
    return max(rounds, key=itemgetter(0))


def impossibility(costs: CostModel, n_past: int, n_max: int) -> str:
    """Why no draft of the draft model can win enough to be tried, as a clause that names the measured costs.

    Empty where one could.
    """
    best, n, takes = best_round(costs, n_past, n_max, costs.draft_ns(n_past), PLAUSIBLE_ACCEPTANCE)
    if best > WORTHWHILE:
        return ""
    if best > _LITTLE:
        right = f"drafts that are right {PLAUSIBLE_ACCEPTANCE:.0%} of the time"
        end = f"{right} would gain {best - 1:.0%}, too little to be worth trying"
    elif f"{takes:.1f}" == f"{n + 1:.1f}":
        # A difference that is not shown is no reason.
        same = f"drafting and checking {n + 1} tokens takes as long here as writing them one by one"
        return f"{same}, so the draft model cannot win"
    elif takes < n + 1:
        end = "the draft model could win only if hardly a token were wrong"
    else:
        end = "the draft model cannot win"
    return f"drafting and checking {n + 1} tokens takes as long here as writing {takes:.1f} one by one, so {end}"


@dataclass(slots=True)
class Trial:
    """Decides from the advantages of rounds whether a source of drafts is on.

    The advantage of a round is (tokens - rate * cost) - (1 - rate * plain cost): what it brought beyond a plain step,
    in tokens. Mean and variance forget with `FORGETTING`. The source goes off when the mean is below zero by `Z`
    standard errors after at least `PATIENCE` rounds that lost `STAKE` tokens together: where one drafted token is
    cheap, some that were not worth submitting are the price of seeing when the text becomes easy. It comes back for a
    probe after `FIRST_GAP` plain tokens, which lasts until it has gained or lost `STAKE`; the gap doubles up to
    `LONGEST_GAP` with every probe that loses.
    """

    FORGETTING = 0.8
    Z = 1.0
    PATIENCE = 3
    STAKE = 0.3
    FIRST_GAP = 16
    LONGEST_GAP = 256

    on: bool = True
    rounds: int = 0
    mean: float = 0.0
    variance: float = 0.0
    balance: float = 0.0
    gap: int = FIRST_GAP
    waited: int = 0

    def begin(self) -> None:
        """Start an answer: what led to the last verdict was another text's, so a probe comes at once."""
        self._forget()
        self.gap, self.waited = self.FIRST_GAP, self.FIRST_GAP

    def wants_round(self) -> bool:
        """Whether the source may be used in the next round."""
        return self.on or self.waited >= self.gap

    def observe_plain(self, n_tokens: int) -> None:
        """Count tokens that were emitted without the source."""
        if not self.on:
            self.waited += n_tokens

    def observe_round(self, advantage: float) -> None:
        """Learn from a round that used the source."""
        self.balance += advantage
        if not self.on:
            self._judge_probe()
            return
        self.balance = min(0.0, self.balance)
        self.rounds += 1
        forgetting = self.FORGETTING if self.rounds > 1 else 0.0
        delta = advantage - self.mean
        self.mean += (1 - forgetting) * delta
        self.variance = forgetting * (self.variance + (1 - forgetting) * delta * delta)
        if self.rounds >= self.PATIENCE and self.balance <= -self.STAKE:
            effective = (1 - self.FORGETTING**self.rounds) / (1 - self.FORGETTING)
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
        self.rounds, self.mean, self.variance, self.balance = 0, 0.0, 0.0, 0.0


@dataclass(slots=True)
class Ledger:
    """An account in units of one plain token's time, after conservative bandits (arXiv 1602.04282).

    A round that drafted adds tokens * plain - cost; a plain token adds `INTEREST`. The balance is capped, and at zero
    drafting stops until a probe is affordable. Over any stretch of n tokens the time is then at most
    plain * (1 + INTEREST) * n + CAP + RESERVE plain tokens + one round, and what held up single rounds (`Stalls`).
    """

    CAP = 10.0
    START = 5.0
    REFILL = 1.0
    """What an answer adds at least to what the one before has left of `START`: a draft model that is sure of itself and
    wrong costs every answer as much for good, and interest and reading besides."""
    INTEREST = 0.01
    PROBE = 1.0
    RESERVE = 2.0
    """What is left to drafts that cost nothing to make, when those of a draft model have used up all else."""
    WEALTH = 1.0
    LEAST_WEALTH = 0.5
    """What a look-up is weighed against at first, and where drafts have lost. In replays of 40 answers of
    64 tokens without a draft model, on three machines of two cores, twice as much gained up to 1% more, and 6 of those
    120 lost over 2% in the place of 2."""

    balance: float = START
    blocked: bool = False

    def begin(self) -> None:
        """Start an answer: nothing that another brought is there to be lost on this one, and little if that lost."""
        self.balance, self.blocked = min(self.START, max(0.0, self.balance) + self.REFILL), False

    @property
    def allows_any(self) -> bool:
        """Whether any draft may be risked; those that cost nothing to make may go into the reserve."""
        return self.balance > -self.RESERVE

    @property
    def allows_model(self) -> bool:
        """Whether a round may be risked that the draft model takes part in."""
        return not self.blocked

    @property
    def wealth(self) -> float:
        """Tokens that may be lost by a look-up, which costs nothing to make and can be wrong at length.

        Drafts that win add to them; see `Rule.best_submission`.
        """
        return max(self.LEAST_WEALTH, self.WEALTH + self.balance - self.START)

    def observe(self, tokens: int, cost_ns: float, plain_ns: float, *, drafted: bool) -> None:
        """Book one round."""
        change = tokens - cost_ns / plain_ns if drafted else self.INTEREST * tokens
        self.balance = min(self.CAP, self.balance + change)
        if self.balance <= 0:
            self.blocked = True
        elif self.balance >= self.PROBE:
            self.blocked = False


@dataclass(slots=True)
class Curiosity:
    """When free drafts that are thought too dear are tried all the same: what is never tried is never corrected.

    A disturbed batch can make wide ones look dear for good. So after `FIRST_GAP` tokens without drafts, one is chosen
    as if rows beyond the first took only `HOPE` of what they are thought to take; the gap doubles up to `LONGEST_GAP`
    with every try that brings no gain. What is tried is at least `SURE` to be right, so that it tells of costs.
    """

    FIRST_GAP = 64
    LONGEST_GAP = 1024
    HOPE = 0.6
    SURE = 0.8

    gap: int = FIRST_GAP
    waited: int = 0
    trying: bool = False

    def begin(self) -> None:
        """Start an answer; a try that another one ended with has told nothing."""
        self.trying = False

    def wants_try(self) -> bool:
        """Whether it is time for a try."""
        return self.waited >= self.gap

    def observe(self, tokens: int, cost_ns: float, plain_ns: float, *, drafted: bool) -> None:
        """Learn from one round."""
        if not drafted:
            self.waited += tokens
            return
        self.waited = 0
        if tokens * plain_ns > cost_ns:
            self.gap = self.FIRST_GAP
        elif self.trying:
            self.gap = min(2 * self.gap, self.LONGEST_GAP)
        self.trying = False
