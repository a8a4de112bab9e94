"""Could two samples come from one distribution? Pearson's chi-square test of homogeneity."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

_FEWEST = 5.0
"""Expected counts below this make the statistic's distribution a poor fit (Cochran's rule)."""


def homogeneity(one: Counter[Any], other: Counter[Any]) -> tuple[float, int]:
    """Pearson's statistic for two samples, and its degrees of freedom (classes less one).

    Classes that expect fewer than five on either side are taken together.
    """
    totals = one.total(), other.total()
    whole = sum(totals)
    classes: list[tuple[int, int]] = []
    rare = [0, 0]
    for key in one.keys() | other.keys():
        seen = one[key], other[key]
        if min(totals) * sum(seen) / whole < _FEWEST:
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
    """Probability that chi-square with whole degrees of freedom is at least `statistic`.

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
