"""Ratios without the machine's noise: every step counts the median time of its batch size.

On a shared machine, steps of one batch size differ by a third, and copies of the weights by several percent. A decision
to draft is worth less. To compare decisions alone, the time of a batch is the median of all steps of its size, relative
to a step with no draft of the same answer.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StepTime:
    """The time of one step.

    Attributes:
        n_tokens: Emitted tokens.
        rows: Batch size.
        batch_ns: Verification, sampling and everything else except drafting.
        draft_ns: Drafting, including the tokens that the draft model read first.
    """

    n_tokens: int
    rows: int
    batch_ns: int
    draft_ns: int


@dataclass(frozen=True, slots=True)
class Race:
    """One answer of every contender, at the same time."""

    prompt: str
    steps: Mapping[str, Sequence[StepTime]]
    reading_ns: Mapping[str, int]

    @property
    def single_ns(self) -> float:
        """Return the median time of a step with no draft."""
        return statistics.median(step.batch_ns for step in self.steps["plain"])


def steady(races: Sequence[Race]) -> dict[str, dict[str, float]]:
    """Return the time with no draft over that of each contender, by prompt; the median of several races.

    Drafting counts as it was measured, since drafted tokens that were not submitted are unknown.
    """
    costs = batch_costs(races)
    ratios: dict[str, dict[str, list[float]]] = {}
    for race in races:
        single = race.single_ns
        for name, steps in race.steps.items():
            drafting = sum(step.draft_ns for step in steps) + race.reading_ns[name]
            spent = sum(costs[step.rows] for step in steps) + drafting / single
            without = sum(step.n_tokens for step in steps) * costs[1]
            ratios.setdefault(race.prompt, {}).setdefault(name, []).append(without / spent)
    return {
        prompt: {name: statistics.median(values) for name, values in found.items()} for prompt, found in ratios.items()
    }


def batch_costs(races: Iterable[Race]) -> dict[int, float]:
    """Return the median time of each batch size, relative to a step with no draft of the same answer."""
    shares: dict[int, list[float]] = {}
    for race in races:
        single = race.single_ns
        for steps in race.steps.values():
            for step in steps:
                shares.setdefault(step.rows, []).append(step.batch_ns / single)
    return {rows: statistics.median(values) for rows, values in shares.items()}
