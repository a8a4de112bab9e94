"""Check by chi-square that sampled answers have the same distribution with and without drafts."""

import math
from collections import Counter
from collections.abc import Generator, Hashable
from dataclasses import dataclass, replace
from typing import Any

from app.core.errors import Interrupted
from app.engine.events import Step
from app.engine.interfaces import Cancelled, Controls
from app.engine.types import Drafting, DraftParams, FinishReason
from app.worker.events import Finished
from app.worker.request import AnswerRequest, LoadedPair
from app.worker.responder import answer

EVERYTHING = DraftParams(n_max=7, p_min=0.0)
"""Parameters that also submit wrong drafts, where a fault would show."""
_FIRST_TOKENS = 3
"""Tokens of a sampled answer; the first follows from the prompt."""
_SIGNIFICANCE_LEVEL = 0.001
"""A test that runs often must not fail by chance once in twenty runs."""
_MIN_EXPECTED = 5.0
"""Expected counts below this make chi-square a poor fit (Cochran's rule)."""


@dataclass(frozen=True, slots=True)
class SampledCheck:
    """The first tokens of sampled answers, with and without drafts.

    Attributes:
        answers: Answers of each side.
        drafted: Submitted draft tokens; 0 means that nothing was tested.
        degrees_of_freedom: 0 if all answers were equal.
        p: Probability of a statistic at least as large if both distributions are the same.
    """

    contender: str
    answers: int
    drafted: int
    chi_square: float
    degrees_of_freedom: int
    p: float

    @property
    def holds(self) -> bool:
        return self.p >= _SIGNIFICANCE_LEVEL


def check_sampled(
    pair: LoadedPair, request: AnswerRequest, contender: str, drafting: Drafting, answers: int, cancelled: Cancelled
) -> Generator[str, None, SampledCheck]:
    """Draw short answers with and without drafts and compare their frequencies; see `check`.

    Both sides use different seeds; equal seeds would give equal draws.
    """
    counts: list[Counter[Hashable]] = [Counter(), Counter()]
    drafted = 0
    for number in range(answers):
        for side, way in enumerate((None, drafting)):
            sampling = replace(request.sampling, seed=2 * number + side)
            short = replace(request, sampling=sampling, drafting=way, max_tokens=_FIRST_TOKENS)
            *events, last = answer(pair, 0, short, Controls(cancelled))
            assert isinstance(last, Finished)
            if last.reason is FinishReason.CANCELLED:
                raise Interrupted
            counts[side][tuple(token for one in events if isinstance(one, Step) for token in one.tokens)] += 1
            drafted += last.stats.draft_n
        yield f"Sampled answers {number + 1:,} of {answers:,}"
    statistic, freedom = homogeneity(*counts)
    return SampledCheck(contender, answers, drafted, statistic, freedom, chi_square_p(statistic, freedom))


def homogeneity(one: Counter[Any], other: Counter[Any]) -> tuple[float, int]:
    """Return Pearson's statistic for two samples, and its degrees of freedom.

    Classes with an expected count below `_MIN_EXPECTED` are merged.
    """
    totals = one.total(), other.total()
    whole = sum(totals)
    classes: list[tuple[int, int]] = []
    rare = [0, 0]
    for key in one.keys() | other.keys():
        seen = one[key], other[key]
        if min(totals) * sum(seen) / whole < _MIN_EXPECTED:
            rare = [rare[0] + seen[0], rare[1] + seen[1]]
        else:
            classes.append(seen)
    if sum(rare):
        classes.append((rare[0], rare[1]))
    statistic = 0.0
    for seen in classes:
        for observed, total in zip(seen, totals, strict=True):
            expected = total * sum(seen) / whole
            statistic += (observed - expected) ** 2 / expected
    return statistic, max(0, len(classes) - 1)


def chi_square_p(statistic: float, freedom: int) -> float:
    """Return the probability that chi-square with these degrees of freedom is at least `statistic`.

    Abramowitz and Stegun, 26.4.4 and 26.4.5: with h = statistic / 2, for even freedom
    exp(-h) * sum(h^i / i!, i < freedom / 2), for odd erfc(sqrt(h)) + exp(-h) * sum(h^(i - 1/2) / gamma(i + 1/2)).
    """
    if freedom <= 0 or statistic <= 0:
        return 1.0
    half = statistic / 2
    if freedom % 2 == 0:
        terms = [i * math.log(half) - math.lgamma(i + 1) for i in range(freedom // 2)]
        rest = 0.0
    else:
        terms = [(i - 0.5) * math.log(half) - math.lgamma(i + 0.5) for i in range(1, freedom // 2 + 1)]
        rest = math.erfc(math.sqrt(half))
    return min(1.0, rest + sum(math.exp(term - half) for term in terms))
