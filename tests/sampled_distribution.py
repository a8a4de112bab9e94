"""Check by chi-square that sampled answers have the same distribution with and without drafts."""

import math
from collections import Counter
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

from app.engine.events import Step
from app.engine.interfaces import Controls
from app.engine.types import DraftParams
from app.worker.events import Finished
from app.worker.request import AnswerRequest, LoadedPair
from app.worker.responder import answer

EVERYTHING = DraftParams(n_max=7, p_min=0.0)
"""Parameters that also submit wrong drafts, where a fault would show."""
_SIGNIFICANCE_LEVEL = 0.001
"""A test that runs often must not fail by chance once in twenty runs."""
_MIN_EXPECTED = 5.0
"""Expected counts below this make chi-square a poor fit (Cochran's rule)."""


@dataclass(frozen=True, slots=True)
class SampledCheck:
    """The first tokens of sampled answers, with and without drafts.

    Attributes:
        drafted: Submitted draft tokens; 0 means that nothing was tested.
        degrees_of_freedom: 0 if all answers were equal.
    """

    drafted: int
    chi_square: float
    degrees_of_freedom: int

    @property
    def holds(self) -> bool:
        return self.chi_square <= critical_value(self.degrees_of_freedom, _SIGNIFICANCE_LEVEL)


def check_sampled(pair: LoadedPair, request: AnswerRequest, answers: int = 300, n_tokens: int = 3) -> SampledCheck:
    """Draw short answers with and without drafts and compare their frequencies; the first token is never drafted.

    Both sides use different seeds; equal seeds would give equal draws.
    """
    counts, drafted = (Counter[tuple[int, ...]](), Counter[tuple[int, ...]]()), 0
    for seed in range(2 * answers):
        sampling, drafting = replace(request.sampling, seed=seed), EVERYTHING if seed % 2 else None
        short = replace(request, sampling=sampling, drafting=drafting, max_tokens=n_tokens)
        *events, last = answer(pair, 0, short, Controls(lambda: False))
        assert isinstance(last, Finished)
        counts[seed % 2][tuple(token for one in events if isinstance(one, Step) for token in one.tokens)] += 1
        drafted += last.stats.draft_n
    return SampledCheck(drafted, *homogeneity(*counts))


def homogeneity(one: Counter[Any], other: Counter[Any]) -> tuple[float, int]:
    """Return Pearson's statistic for two samples of one size, and its degrees of freedom.

    Classes with an expected count below `_MIN_EXPECTED` are merged.
    """
    classes, rare = [], [0, 0]
    for key in one.keys() | other.keys():
        seen = [one[key], other[key]]
        if sum(seen) / 2 < _MIN_EXPECTED:
            rare = [rare[0] + seen[0], rare[1] + seen[1]]
        else:
            classes.append(seen)
    classes += [rare] if sum(rare) else []
    return sum((a - b) ** 2 / (a + b) for a, b in classes), max(0, len(classes) - 1)


def critical_value(freedom: int, level: float) -> float:
    """Return the value that chi-square exceeds with this probability (Wilson and Hilferty's approximation)."""
    if freedom == 0:
        return 0.0
    variance = 2 / (9 * freedom)
    return freedom * (1 - variance + NormalDist().inv_cdf(1 - level) * math.sqrt(variance)) ** 3
