"""A suite of prompts as races, kind by kind, with the bound that these drafts could have reached."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.compare.measure import Measured, Spread, measure, speeds, spread
from app.compare.race import (
    WARM_UP_TOKENS,
    Contender,
    RaceBroken,
    RaceProgress,
    Round,
    Run,
    RunEnded,
    race,
)
from app.compare.steps import Steps
from app.compare.suite import Prompt
from app.engine.interfaces import Cancelled, Clock
from app.engine.replays.replay import Curve, oracle_cost, plain_cost
from app.engine.replays.trace import Trace, teacher_forced
from app.errors import DecodeError, Interrupted
from app.request import AnswerRequest, LoadedPair

DEPTH = 12
"""Drafted tokens that the oracle may look ahead."""
_TRUST = 1.5
"""A measured curve that is wrong about a plain token by more than this factor is not reckoned with: it was measured
while something else kept the machine busy."""


@dataclass(frozen=True, slots=True)
class Raced:
    """One prompt, done.

    Attributes:
        prompt: What was asked.
        rounds: What everybody answered.
        oracle: Plain decoding's time over the least time that these drafts allow; None if not reckoned.
    """

    prompt: Prompt
    rounds: tuple[Round, ...]
    oracle: float | None

    def runs(self) -> list[tuple[int, Run]]:
        """Every run with the number of its round."""
        return [(number, run) for number, r in enumerate(self.rounds, start=1) for run in r.values()]


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table.

    Attributes:
        kind: Kind of text, or "all".
        prompts: How many prompts it sums up.
        measured: Every contender's figures, the plain one first.
        oracle: Over the prompts; None if not reckoned.
    """

    kind: str
    prompts: int
    measured: tuple[Measured, ...]
    oracle: Spread | None

    def of(self, name: str) -> Measured:
        """One contender's figures."""
        return next(m for m in self.measured if m.name == name)

    def as_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "prompts": self.prompts,
            "contenders": {m.name: m.as_json() for m in self.measured},
            "oracle": self.oracle.as_json() if self.oracle is not None else None,
        }


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a benchmark is.

    Attributes:
        prompt: The prompt at hand.
        done: Runs that are done, warm-up included.
        total: Runs in all.
        left_s: Seconds left, by the runs so far; None before the first.
        what: What is going on, in a few words.
        event: What the race said; None between races.
    """

    prompt: Prompt
    done: int
    total: int
    left_s: float | None
    what: str
    event: RaceProgress | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """What is raced.

    Attributes:
        contenders: Who takes part, plain decoding first.
        prompts: The suite.
        request: How to answer; a system message stays in front of every prompt.
        repeat: Counted runs of each contender on each prompt.
        oracle: Whether to reckon it.
        sources: Who drafts on any side, as `app.events.PairInfo.sources` tells it: whose drafts the oracle has.
    """

    contenders: Sequence[Contender]
    prompts: Sequence[Prompt]
    request: AnswerRequest
    repeat: int
    oracle: bool = True
    sources: Collection[str] = ("model", "look-up")

    @property
    def n_runs(self) -> int:
        """Runs in all, warm-up included."""
        return len(self.contenders) * (len(self.prompts) * self.repeat + 1)


def benchmark(
    pair: LoadedPair,
    plan: Plan,
    cancelled: Cancelled,
    clock: Clock,
    keep: Callable[[Raced], None] = lambda raced: None,
) -> Generator[Progress, None, list[Raced]]:
    """Race over every prompt; the first one also warms everybody up.

    Args:
        pair: Whose costs and draft the oracle is reckoned from.
        plan: What is raced.
        cancelled: Ends it; what is done stays.
        clock: Monotonic nanoseconds, for the time left.
        keep: Given every prompt as soon as it is done, so that nothing waits for the end.

    Yields:
        How far it is; a `RaceBroken` as the last event where a contender failed.

    Returns:
        The prompts that were done: one that was stopped, or broke off, counts with the rounds that everybody finished,
        if there are any.
    """
    done: list[Raced] = []
    total = plan.n_runs
    n_runs, started = 0, clock()
    for number, prompt in enumerate(plan.prompts):
        if cancelled():
            break
        warm_up = 0 if number else WARM_UP_TOKENS
        steps = Steps(
            race(plan.contenders, prompt.put_to(plan.request), plan.repeat, cancelled, warm_up_tokens=warm_up)
        )
        broken: RaceBroken | None = None
        for event in steps:
            if isinstance(event, RaceBroken):
                broken = event
                continue
            n_runs += isinstance(event, RunEnded)
            left = (clock() - started) / n_runs * (total - n_runs) / 1e9 if n_runs else None
            name = event.run.contender if isinstance(event, RunEnded) else event.contender
            yield Progress(prompt, n_runs, total, left, name, event)
        rounds = steps.result
        bound = None
        if plan.oracle and rounds and broken is None and not cancelled():
            left = (clock() - started) / n_runs * (total - n_runs) / 1e9
            yield Progress(prompt, n_runs, total, left, "the bound of these drafts")
            bound = reckon_oracle(pair, prompt, rounds[0], cancelled, plan.sources)
        if rounds:
            keep(raced := Raced(prompt, tuple(rounds), bound))
            done.append(raced)
        if broken is not None:
            yield Progress(prompt, n_runs, total, None, "a failure", broken)
            break
    return done


def reckon_oracle(
    pair: LoadedPair, prompt: Prompt, round_: Round, cancelled: Cancelled, sources: Collection[str]
) -> float | None:
    """How much faster than plain decoding the answer could have come with these drafts, acceptance known in advance.

    The first contender's answer is followed by the draft model if it takes part, and both times are reckoned from the
    costs as they are known now; see `app.engine.replays.replay.oracle_cost`.

    Returns:
        None for an answer of one token, where the costs are not known or not to be trusted, and after a stop.
    """
    plain = next(iter(round_.values()))
    if pair.memory is None or plain.ns_per_token is None or not plain.tokens:
        return None
    told = pair.memory.costs.target_ns(1, len(plain.prompt)) / plain.ns_per_token
    if not 1 / _TRUST <= told <= _TRUST:
        return None
    matches: tuple[int, ...] = (0,) * (len(plain.tokens) - 1)
    confidences: tuple[tuple[float, ...], ...] = ((),) * (len(plain.tokens) - 1)
    if "model" in sources and pair.drafter is not None and pair.info.draft is not None:
        n_vocab = min(pair.info.target.n_vocab, pair.info.draft.n_vocab)
        views = []
        try:
            for view in teacher_forced(pair.drafter.cache, n_vocab, plain.prompt, plain.tokens, DEPTH):
                if cancelled():
                    return None
                views.append(view)
        except (Interrupted, DecodeError):
            # A draft model that fails takes the bound with it, and not the race.
            return None
        matches, confidences = tuple(m for m, _ in views), tuple(q for _, q in views)
    trace = Trace(prompt.name, prompt.kind, plain.prompt, plain.tokens, matches, confidences)
    curve = Curve.of(pair.memory.costs.snapshot())
    return plain_cost(trace, curve) / oracle_cost(trace, curve, lookup="look-up" in sources)


def rows(raced: Sequence[Raced], names: Sequence[str]) -> list[Row]:
    """The table: a line a kind, and one over everything where there is more than one kind."""
    by_kind: dict[str, list[Raced]] = {}
    for one in raced:
        by_kind.setdefault(one.prompt.kind, []).append(one)
    table = [_row(kind, some, names) for kind, some in by_kind.items()]
    return [*table, _row("all", raced, names)] if len(table) > 1 else table


def with_most_rounds(raced: Sequence[Raced]) -> list[Raced]:
    """The prompts that belong into one sum: without the one that was stopped, as long as others have more rounds."""
    most = max((len(one.rounds) for one in raced), default=0)
    return [one for one in raced if len(one.rounds) == most]


def _row(kind: str, raced: Sequence[Raced], names: Sequence[str]) -> Row:
    counted = with_most_rounds(raced)
    races = [one.rounds for one in counted]
    measured = tuple(measure(races, name, names[0]) for name in names)
    return Row(kind, len(counted), measured, spread(one.oracle for one in counted))


def figures(table: Sequence[Row]) -> Mapping[str, Mapping[str, Spread]]:
    """Speeds by kind and contender, as the history keeps them."""
    return {row.kind: speeds(row.measured) for row in table}
