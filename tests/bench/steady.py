"""Ratios without the machine's noise: every step counts the median time of its batch size.

On a shared machine, steps of one batch size differ by a third, and copies of the weights by several percent: more than
a decision to draft is worth. To compare decisions alone, the time of a batch is the median of all steps of its size, in
units of a step with no draft in the same answers.
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
        batch_ns: Verification, sampling and all else but drafting.
        draft_ns: Drafting, with the tokens that the draft model read for it.
    """

    n_tokens: int
    rows: int
    batch_ns: int
    draft_ns: int


@dataclass(frozen=True, slots=True)
class Race:
    """One answer of every contender, at the same time.

    Attributes:
        prompt: Name of the prompt.
        steps: By contender, "plain" among them: every step after the first token.
        reading_ns: By contender: time in which the draft model read the prompt.
    """

    prompt: str
    steps: Mapping[str, Sequence[StepTime]]
    reading_ns: Mapping[str, int]

    @property
    def plain_ns(self) -> float:
        """The median time of a step with no draft."""
        return statistics.median(step.batch_ns for step in self.steps["plain"])


def steady(races: Sequence[Race]) -> dict[str, dict[str, float]]:
    """Return the time with no draft over that of each contender, by prompt; the median of several races.

    Drafting counts as it was measured, since drafted tokens that were not submitted are unknown.
    """
    widths = widths_of(races)
    ratios: dict[str, dict[str, list[float]]] = {}
    for race in races:
        plain = race.plain_ns
        for name, steps in race.steps.items():
            drafting = sum(step.draft_ns for step in steps) + race.reading_ns[name]
            spent = sum(widths[step.rows] for step in steps) + drafting / plain
            without = sum(step.n_tokens for step in steps) * widths[1]
            ratios.setdefault(race.prompt, {}).setdefault(name, []).append(without / spent)
    return {prompt: {name: statistics.median(values) for name, values in of.items()} for prompt, of in ratios.items()}


def widths_of(races: Iterable[Race]) -> dict[int, float]:
    """Return the median time of each batch size, in steps with no draft of the same answer."""
    seen: dict[int, list[float]] = {}
    for race in races:
        plain = race.plain_ns
        for steps in race.steps.values():
            for step in steps:
                seen.setdefault(step.rows, []).append(step.batch_ns / plain)
    return {rows: statistics.median(values) for rows, values in seen.items()}
