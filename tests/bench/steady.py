"""Ratios without the machine's moods: every round counted with what rounds of its width took in the median.

Single rounds of one width differ by a third on a shared machine, and a copy of the weights by several percent with
where it lies; over one answer that is more than what a decision to draft is worth. The decisions are what is to be
compared, so the time of a batch is taken from all rounds of its width, told in plain steps of the same answers.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StepTime:
    """What one round took.

    Attributes:
        n_tokens: What it gave.
        rows: Width of its batch.
        batch_ns: Checking, sampling and all else but drafting.
        draft_ns: Drafting, and what the draft model read for it.
    """

    n_tokens: int
    rows: int
    batch_ns: int
    draft_ns: int


@dataclass(frozen=True, slots=True)
class Race:
    """One answer of everybody, at the same time.

    Attributes:
        prompt: What was asked.
        steps: By contender, "plain" among them: every round after the first token.
        reading_ns: By contender: what a draft model took for the prompt besides.
    """

    prompt: str
    steps: Mapping[str, Sequence[StepTime]]
    reading_ns: Mapping[str, int]

    @property
    def plain_ns(self) -> float:
        """A plain step of this answer, in the median."""
        return statistics.median(step.batch_ns for step in self.steps["plain"])


def steady(races: Sequence[Race]) -> dict[str, dict[str, float]]:
    """By prompt and contender: that of no draft time over theirs.

    Drafting is counted as it was, since what was drafted and not submitted is not told.

    Args:
        races: Several of one prompt count with the median of their ratios.
    """
    widths = widths_of(races)
    ratios: dict[str, dict[str, list[float]]] = {}
    for race in races:
        plain = race.plain_ns
        for name, steps in race.steps.items():
            drafting = sum(step.draft_ns for step in steps) + race.reading_ns[name]
            spent = sum(widths[step.rows] for step in steps) + drafting / plain
            plainly = sum(step.n_tokens for step in steps) * widths[1]
            ratios.setdefault(race.prompt, {}).setdefault(name, []).append(plainly / spent)
    return {prompt: {name: statistics.median(values) for name, values in of.items()} for prompt, of in ratios.items()}


def widths_of(races: Iterable[Race]) -> dict[int, float]:
    """What a batch of each width took in the median, in plain steps of the same answer."""
    seen: dict[int, list[float]] = {}
    for race in races:
        plain = race.plain_ns
        for steps in race.steps.values():
            for step in steps:
                seen.setdefault(step.rows, []).append(step.batch_ns / plain)
    return {rows: statistics.median(values) for rows, values in seen.items()}
