"""A suite of prompts as races, kind by kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.compare.measure import WHOLE, Measured, measure
from app.compare.race import RaceEvent, Round, RunEnded, Side, Steps, race
from app.compare.report import run_json
from app.compare.suite import Prompt
from app.engine.interfaces import Cancelled
from app.worker.request import AnswerRequest, LoadedPair

Results = Mapping[Prompt, Sequence[Round]]
"""The rounds of each prompt."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table.

    Attributes:
        kind: Kind of text, or "all".
        prompts: Number of its prompts.
        measured: Every side's figures, the baseline first.
    """

    kind: str
    prompts: int
    measured: tuple[Measured, ...]

    def of(self, name: str) -> Measured:
        return next(m for m in self.measured if m.name == name)

    @property
    def drafted(self) -> Measured | None:
        """The side whose acceptance is shown: automatic drafting, else the last one."""
        last = self.measured[-1] if self.measured else None
        return next((m for m in self.measured if m.name == "automatic"), last)

    def as_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "prompts": self.prompts,
            "contenders": {m.name: m.as_json() for m in self.measured},
        }


@dataclass(frozen=True, slots=True)
class Progress:
    """An event of the current race; `done` counts all runs that ended."""

    prompt: Prompt
    done: int
    event: RaceEvent


@dataclass(frozen=True, slots=True)
class RoundEnded:
    """Every side has answered a prompt in this round."""

    prompt: Prompt
    number: int
    round: Round


@dataclass(frozen=True, slots=True)
class Plan:
    """The sides and prompts of a benchmark.

    Attributes:
        sides: The sides, no draft first.
        request: How to answer; its messages stand before every prompt.
        repeat: Most rounds that count.
        is_enough: Whether another round over the whole suite would not change the result.
    """

    sides: Sequence[Side]
    prompts: Sequence[Prompt]
    request: AnswerRequest
    repeat: int
    is_enough: Callable[[Results], bool] = lambda results: False

    @property
    def n_runs(self) -> int:
        """Most runs, warm-up included."""
        return len(self.sides) * (len(self.prompts) * self.repeat + 1)


def benchmark(
    pair: LoadedPair, plan: Plan, results: dict[Prompt, list[Round]], cancelled: Cancelled
) -> Iterator[Progress | RoundEnded]:
    """Race round by round over every prompt; the first prompt also warms up.

    Rounds go over the whole suite, so that one that is stopped early has all kinds of text.

    Args:
        pair: The pair that answers.
        plan: What to run.
        results: Receives every finished round, also if an error is raised.
        cancelled: Stops in the middle of a run.
    """
    n_runs = 0
    for number in range(1, plan.repeat + 1):
        for prompt in plan.prompts:
            if cancelled():
                return
            request = prompt.put_to(plan.request)
            steps = Steps(race(pair, plan.sides, request, 1, cancelled, warm_up=not n_runs, first=number))
            for event in steps:
                n_runs += isinstance(event, RunEnded)
                yield Progress(prompt, n_runs, event)
            for round_ in steps.result.rounds:
                results.setdefault(prompt, []).append(round_)
                yield RoundEnded(prompt, number, round_)
            if steps.result.broken is not None:
                raise steps.result.broken
        if plan.is_enough(results):
            return


def rows(results: Results, names: Sequence[str]) -> list[Row]:
    """Return a row per kind of text, and one over all if there are several kinds."""
    by_kind: dict[str, list[Sequence[Round]]] = {}
    for prompt, rounds in results.items():
        by_kind.setdefault(prompt.kind, []).append(rounds)
    if len(by_kind) > 1:
        by_kind[WHOLE] = list(results.values())
    return [
        Row(kind, len(races), tuple(measure(races, name, names[0]) for name in names))
        for kind, races in by_kind.items()
    ]


def n_whole(results: Results, n_prompts: int) -> int:
    """Return the rounds that covered the whole suite."""
    return min(map(len, results.values())) if results and len(results) == n_prompts else 0


def settled(table: Sequence[Row]) -> bool:
    """Return whether more rounds would not change any outcome."""
    return all(m.is_clear for row in table for m in row.measured[1:])


def round_json(ended: RoundEnded) -> list[dict[str, Any]]:
    """Return one object per run."""
    prompt = ended.prompt
    return [
        {
            "type": "run",
            "kind": prompt.kind,
            "prompt": prompt.name,
            "contender": run.contender,
            **run_json(run, ended.number),
        }
        for run in ended.round.values()
    ]
