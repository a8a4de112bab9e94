"""Learn how likely a drafted token is to be accepted."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from app.engine.types import MAX_DRAFT

PRIOR_WEIGHT = 12.0
"""Observations that a prior counts as."""
FORGETTING = 0.998

CONFIDENCE_EDGES = (0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.88, 0.94, 0.98, 0.995)
CONFIDENCE_PRIOR = (0.12, 0.3, 0.44, 0.55, 0.63, 0.74, 0.86, 0.93, 0.97, 0.985, 0.997)
"""Prior acceptance by probability; a draft model of the same family is nearly calibrated (measured on Qwen2.5 1.5B with
0.5B)."""

SUPPORT_EDGES = (1, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49)
SUPPORT_PRIOR = (0.25, 0.46, 0.57, 0.73, 0.75, 0.81, 0.87, 0.91, 0.925, 0.955, 0.977, 0.995)
"""Prior acceptance by the support of n-gram drafts (measured on 64 answers of Qwen2.5-Coder 1.5B)."""


_FIRST_LIMIT = 8
"""Length limit of the first drafts. If a confident model misreads the task, all its tokens are wrong, which their
probabilities do not show. A fully accepted draft doubles the limit; any other shortens it by a tenth."""
_LIMIT_SHRINK_FACTOR = 0.9
_RUN_PRIOR = (0.85, 6.0)
_RUN_FORGETTING = 0.98


@dataclass(slots=True)
class AcceptanceTable:
    """Acceptance by confidence, separately for the first drafted token and later tokens.

    Each bin is a Beta estimate with a prior of weight `PRIOR_WEIGHT` and exponential forgetting; the bins are then
    made monotone, because more confidence never means less acceptance (pool adjacent violators).

    Attributes:
        edges: Increasing borders between the bins.
        prior: Prior mean of each bin; one value more than `edges`.
        counts: Accepted and seen tokens, with forgetting, by position (first, later) and bin.
    """

    edges: Sequence[float]
    prior: Sequence[float]
    counts: list[list[list[float]]] = field(default_factory=list)
    _means: list[list[float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.counts:
            self.counts = [[[0.0, 0.0] for _ in self.prior] for _ in range(2)]
        self._means = [self._monotone(position) for position in range(2)]

    def probability(self, confidence: float, depth: int) -> float:
        """Return the probability that the token at `depth` (0 first) is accepted if all tokens before it were."""
        return self._means[depth > 0][bisect_right(self.edges, confidence)]

    def probabilities(self, confidences: Sequence[float], depth: int) -> list[float]:
        """Return the `probability` of consecutive tokens, starting at `depth`."""
        edges, later = self.edges, self._means[1]
        found = [later[bisect_right(edges, confidence)] for confidence in confidences]
        if found and depth == 0:
            found[0] = self.probability(confidences[0], 0)
        return found

    def observe(self, labels: Sequence[tuple[float, int, bool]]) -> None:
        """Learn from (confidence, depth, accepted). Leave out tokens after a rejected token: they were not verified."""
        changed = set()
        for confidence, depth, accepted in labels:
            position = int(depth > 0)
            bin_ = self.counts[position][bisect_right(self.edges, confidence)]
            bin_[0] = bin_[0] * FORGETTING + accepted
            bin_[1] = bin_[1] * FORGETTING + 1.0
            changed.add(position)
        for position in changed:
            self._means[position] = self._monotone(position)

    def _monotone(self, position: int) -> list[float]:
        # Blocks of (mean, weight, number of bins); a block merges into the previous block if its mean is lower.
        blocks: list[tuple[float, float, int]] = []
        for (accepted, seen), prior in zip(self.counts[position], self.prior, strict=True):
            weight = seen + PRIOR_WEIGHT
            block = ((accepted + prior * PRIOR_WEIGHT) / weight, weight, 1)
            while blocks and blocks[-1][0] > block[0]:
                mean, before, n = blocks.pop()
                total = before + block[1]
                block = ((mean * before + block[0] * block[1]) / total, total, n + block[2])
            blocks.append(block)
        return [mean for mean, _, n in blocks for _ in range(n)]


def model_table(counts: list[list[list[float]]] | None = None) -> AcceptanceTable:
    """Return a table by the draft model's probability."""
    return AcceptanceTable(CONFIDENCE_EDGES, CONFIDENCE_PRIOR, counts or [])


def ngram_table(counts: list[list[list[float]]] | None = None) -> AcceptanceTable:
    """Return a table by the support of n-gram tokens."""
    return AcceptanceTable(SUPPORT_EDGES, SUPPORT_PRIOR, counts or [])


class RunLength:
    """Learn from the drafts of an answer how long the next draft may be: at most `limit` tokens."""

    def __init__(self) -> None:
        self.limit = _FIRST_LIMIT
        self._survived = _RUN_PRIOR[0] * _RUN_PRIOR[1]
        self._judged = _RUN_PRIOR[1]

    @property
    def survival(self) -> float:
        """Return the mean probability that a token after an accepted token is accepted."""
        return self._survived / self._judged

    @property
    def is_known(self) -> bool:
        """Return whether `survival` depends more on this answer than on the prior."""
        return self._judged >= 2 * _RUN_PRIOR[1]

    def observe_token(self, *, accepted: bool) -> None:
        """Learn from a token after an accepted token."""
        self._survived = _RUN_FORGETTING * self._survived + accepted
        self._judged = _RUN_FORGETTING * self._judged + 1.0

    def observe_draft(self, n_drafted: int, judged: Sequence[bool]) -> None:
        """Learn from a draft, and from whether its first tokens were right, if the target judged them."""
        if len(judged) == n_drafted and all(judged):
            self.limit = min(MAX_DRAFT, max(self.limit, 2 * n_drafted))
        elif not all(judged):
            self.limit = max(_FIRST_LIMIT, sum(judged), round(_LIMIT_SHRINK_FACTOR * self.limit))
