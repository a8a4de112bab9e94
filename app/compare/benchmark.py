"""A suite of prompts as races, kind by kind."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.compare.measure import WHOLE, Measured, Spread, measure, speeds
from app.compare.race import Contender, RaceEvent, Round, RunEnded, Steps, race
from app.compare.report import run_json
from app.compare.suite import Prompt
from app.core.errors import AppError
from app.engine.interfaces import Cancelled
from app.worker.request import AnswerRequest


@dataclass(frozen=True, slots=True)
class PromptResult:
    """The rounds of one prompt."""

    prompt: Prompt
    rounds: tuple[Round, ...]


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
class Benchmarked:
    """Result of a benchmark, with the error that ended it early."""

    results: tuple[PromptResult, ...]
    broken: AppError | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """The sides and prompts of a benchmark.

    Attributes:
        contenders: The sides, no draft first.
        request: How to answer; its messages stand before every prompt.
        repeat: Most rounds that count.
        is_enough: Whether another round over the whole suite would not change the result.
    """

    contenders: Sequence[Contender]
    prompts: Sequence[Prompt]
    request: AnswerRequest
    repeat: int
    is_enough: Callable[[Sequence[PromptResult]], bool] = lambda results: False

    @property
    def n_runs(self) -> int:
        """Most runs, warm-up included."""
        return len(self.contenders) * (len(self.prompts) * self.repeat + 1)


def benchmark(plan: Plan, cancelled: Cancelled) -> Generator[Progress | RoundEnded, None, Benchmarked]:
    """Race round by round over every prompt; the first prompt also warms up.

    Rounds go over the whole suite, so that one that is stopped early has all kinds of text.
    """
    rounds: dict[Prompt, list[Round]] = {}
    n_runs = 0

    def results() -> tuple[PromptResult, ...]:
        return tuple(PromptResult(prompt, tuple(found)) for prompt, found in rounds.items())

    for number in range(1, plan.repeat + 1):
        for prompt in plan.prompts:
            if cancelled():
                return Benchmarked(results())
            request = prompt.put_to(plan.request)
            steps = Steps(race(plan.contenders, request, 1, cancelled, warm_up=not n_runs, first=number))
            for event in steps:
                n_runs += isinstance(event, RunEnded)
                yield Progress(prompt, n_runs, event)
            found = steps.result.rounds
            if found:
                rounds.setdefault(prompt, []).extend(found)
                yield RoundEnded(prompt, number, found[0])
            if steps.result.broken is not None:
                return Benchmarked(results(), steps.result.broken)
        if cancelled() or plan.is_enough(results()):
            break
    return Benchmarked(results())


def rows(results: Sequence[PromptResult], names: Sequence[str]) -> list[Row]:
    """Return a row per kind of text, and one over all if there are several kinds."""
    by_kind: dict[str, list[PromptResult]] = {}
    for one in results:
        by_kind.setdefault(one.prompt.kind, []).append(one)
    table = [_row(kind, some, names) for kind, some in by_kind.items()]
    return [*table, _row(WHOLE, results, names)] if len(table) > 1 else table


def _row(kind: str, results: Sequence[PromptResult], names: Sequence[str]) -> Row:
    races = [one.rounds for one in results]
    measured = tuple(measure(races, name, names[0]) for name in names)
    return Row(kind, len(results), measured)


def n_whole(results: Sequence[PromptResult], n_prompts: int) -> int:
    """Return the rounds that covered the whole suite."""
    return min(len(one.rounds) for one in results) if results and len(results) == n_prompts else 0


def settled(table: Sequence[Row]) -> bool:
    """Return whether more rounds would not change any outcome."""
    return all(m.is_clear for row in table for m in row.measured[1:])


def figures(table: Sequence[Row]) -> Mapping[str, Mapping[str, Spread]]:
    """Return speeds by kind of text and side, for the history."""
    return {row.kind: speeds(row.measured) for row in table}


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
