"""A suite of prompts as races, kind by kind, with the bound that these drafts could have reached."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from app.compare.measure import WHOLE, Measured, Spread, is_clear, measure, speeds, spread
from app.compare.race import (
    WARM_UP,
    WARM_UP_TOKENS,
    Contender,
    RaceBroken,
    RaceProgress,
    Round,
    Run,
    RunEnded,
    Steps,
    in_order,
    race,
)
from app.compare.suite import Prompt
from app.compare.upper_bound import DEPTH, upper_bound
from app.engine.auto.curve import CostModel
from app.engine.interfaces import Cancelled, Clock
from app.engine.stats import GenerationStats
from app.engine.types import MIN_MATCH
from app.worker.request import AnswerRequest, LoadedPair


@dataclass(frozen=True, slots=True)
class Raced:
    """One prompt, done.

    Attributes:
        prompt: What was asked.
        rounds: What everybody answered.
        oracle: That of no draft time over the least time that these drafts allow; None if not estimated.
    """

    prompt: Prompt
    rounds: tuple[Round, ...]
    oracle: float | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table.

    Attributes:
        kind: Kind of text, or "all".
        prompts: How many prompts it sums up.
        measured: Every contender's figures, the plain one first.
        oracle: Over the prompts; None if not estimated.
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
    """Progress of a benchmark.

    Attributes:
        prompt: The prompt at hand.
        done: Runs that are done, warm-up included.
        total: Runs in all, if no round is left out.
        left_s: Seconds left, if no round is left out; None as long as nothing tells.
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
    """The contenders and prompts of a benchmark.

    Attributes:
        contenders: Who takes part, decoding without drafts first.
        prompts: The suite.
        request: How to answer; a system message stays in front of every prompt.
        repeat: Counted runs of each contender on each prompt, at most.
        oracle: Whether to estimate it.
        sources: Who drafts on any side, as `app.models.pair_info.PairInfo.sources` tells it: whose drafts the oracle
            has.
        min_match: Tokens that must agree for an n-gram drafting.
        lengths: Tokens of each prompt, for the time left.
        enough: Whether another round over the whole suite would tell nothing more.
    """

    contenders: Sequence[Contender]
    prompts: Sequence[Prompt]
    request: AnswerRequest
    repeat: int
    oracle: bool = False
    sources: Collection[str] = ("model", "ngram")
    min_match: int = MIN_MATCH
    lengths: Mapping[Prompt, int] = field(default_factory=dict)
    enough: Callable[[Sequence[Raced]], bool] = lambda raced: False

    @property
    def n_runs(self) -> int:
        """Runs in all if no round is left out, warm-up included."""
        return len(self.contenders) * (len(self.prompts) * self.repeat + 1)

    def time_left(self, pair: LoadedPair) -> TimeLeft:
        """Return an estimate of the time left with this pair."""
        costs = pair.memory.costs if pair.memory is not None else None
        return TimeLeft(self.lengths, self.request.max_tokens, costs)

    def to_come(self, done: int) -> list[tuple[Prompt, str]]:
        """Prompt and contender of every counted run after so many that are done, warm-up included, in order."""
        runs = [
            (prompt, contender.name)
            for number in range(1, self.repeat + 1)
            for prompt in self.prompts
            for contender in in_order(self.contenders, number)
        ]
        return runs[max(0, done - len(self.contenders)) :]

    def to_reckon(self, done: Collection[Prompt] = ()) -> list[Prompt]:
        """Return the prompts whose upper bound is still to be computed with the draft model."""
        wanted = self.oracle and "model" in self.sources
        return [prompt for prompt in self.prompts if prompt not in done] if wanted else []


Keep = Callable[[Prompt, int, Round], None]
"""Takes a prompt, the number of a round from 1, and what everybody answered in it."""


def benchmark(
    pair: LoadedPair,
    plan: Plan,
    cancelled: Cancelled,
    clock: Clock,
    keep: Keep = lambda prompt, number, round_: None,
) -> Generator[Progress, None, list[Raced]]:
    """Race round by round over every prompt; the first one also warms everybody up.

    Rounds go over the whole suite, so that anyone who stops has all kinds of text, and further ones can be left out.

    Args:
        pair: Whose costs and draft the oracle is estimated from.
        plan: What is raced.
        cancelled: Ends it; what is done stays.
        clock: Monotonic nanoseconds, for the time left.
        keep: Given every round of a prompt as soon as it is done, so that nothing waits for the end.

    Yields:
        How far it is; a `RaceBroken` as the last event where a contender failed.

    Returns:
        The prompts that were done, with the rounds that everybody finished.
    """
    rounds: dict[Prompt, list[Round]] = {}
    oracles: dict[Prompt, float | None] = {}
    n_runs, left = 0, plan.time_left(pair)

    def raced() -> list[Raced]:
        return [Raced(prompt, tuple(found), oracles.get(prompt)) for prompt, found in rounds.items()]

    for number in range(1, plan.repeat + 1):
        for prompt in plan.prompts:
            if cancelled():
                return raced()
            request, warm_up = prompt.put_to(plan.request), 0 if n_runs else WARM_UP_TOKENS
            steps = Steps(race(plan.contenders, request, 1, cancelled, warm_up_tokens=warm_up, first=number))
            began = clock()
            seconds = left.seconds(plan.to_come(n_runs), plan.to_reckon(oracles))
            for event in steps:
                if isinstance(event, RaceBroken):
                    yield Progress(prompt, n_runs, plan.n_runs, None, "a failure", event)
                    return raced()
                if isinstance(event, RunEnded):
                    now = clock()
                    n_runs += 1
                    if event.round == WARM_UP:
                        left.warmed_up(event.run.stats)
                    else:
                        left.took(prompt, event.run, (now - began) / 1e9)
                    began, seconds = now, left.seconds(plan.to_come(n_runs), plan.to_reckon(oracles))
                name = event.run.contender if isinstance(event, RunEnded) else event.contender
                yield Progress(prompt, n_runs, plan.n_runs, seconds, name, event)
            found = steps.result
            if plan.oracle and number == 1 and found and not cancelled():
                yield Progress(prompt, n_runs, plan.n_runs, seconds, "upper bound")
                began = clock()
                oracles[prompt] = upper_bound(pair, prompt, found[0], cancelled, plan.sources, plan.min_match)
                if oracles[prompt] is not None:
                    left.reckoned(len(next(iter(found[0].values())).tokens), (clock() - began) / 1e9)
            if found:
                rounds.setdefault(prompt, []).extend(found)
                keep(prompt, number, found[0])
        if cancelled() or plan.enough(raced()):
            break
    return raced()


def rows(raced: Sequence[Raced], names: Sequence[str]) -> list[Row]:
    """The table: a line a kind, and one over everything where there is more than one kind."""
    by_kind: dict[str, list[Raced]] = {}
    for one in raced:
        by_kind.setdefault(one.prompt.kind, []).append(one)
    table = [_row(kind, some, names) for kind, some in by_kind.items()]
    return [*table, _row(WHOLE, raced, names)] if len(table) > 1 else table


def n_whole(raced: Sequence[Raced], n_prompts: int) -> int:
    """Return the rounds that covered the whole suite."""
    return min(len(one.rounds) for one in raced) if raced and len(raced) == n_prompts else 0


def settled(table: Sequence[Row]) -> bool:
    """Return whether further rounds would tell nothing new about any contender."""
    return all(is_clear(m.ratio, work=m.work) for row in table for m in row.measured[1:])


def _row(kind: str, raced: Sequence[Raced], names: Sequence[str]) -> Row:
    races = [one.rounds for one in raced]
    measured = tuple(measure(races, name, names[0]) for name in names)
    return Row(kind, len(raced), measured, spread(one.oracle for one in raced))


def figures(table: Sequence[Row]) -> Mapping[str, Mapping[str, Spread]]:
    """Speeds by kind and contender, as the history keeps them."""
    return {row.kind: speeds(row.measured) for row in table}


class TimeLeft:
    """Learns from every run, those that warm up included.

    Args:
        lengths: Tokens of each prompt, as it is put to the model; of one that is missing the reading counts nothing.
        most_tokens: Of an answer; None where that is not limited, and nothing can be told before an answer was seen.
        costs: What earlier answers have measured of the pair, if any: then there is an estimate before the first run.
    """

    def __init__(self, lengths: Mapping[Prompt, int], most_tokens: int | None, costs: CostModel | None = None) -> None:
        self._lengths = lengths
        self._most = most_tokens
        self._seconds: dict[tuple[Prompt, str], float] = {}
        self._n_runs = self._written = 0
        self._read_ns = self._write_ns = 0.0
        self._n_followed, self._following_s = 0, 0.0
        self._n_read = self._n_predicted = 0
        widest = costs.profile.widest if costs is not None else 1
        # Prompts are read in batches that are wider still, and so at least as fast.
        self._a_read = costs.target_ns(widest, 0) / widest if costs is not None else None
        self._a_written = costs.target_ns(1, 0) if costs is not None else None
        self._a_followed_s = DEPTH * costs.draft_ns(0) / 1e9 if costs is not None and costs.profile.draft_ns else None

    def warmed_up(self, stats: GenerationStats) -> None:
        """A run ended that is shorter than those to come, and may have waited for a first measurement."""
        self._n_read += stats.prompt_n
        self._read_ns += stats.prompt_ns + stats.draft_prompt_ns
        self._n_predicted += stats.predicted_n
        self._write_ns += stats.predicted_ns

    def took(self, prompt: Prompt, run: Run, seconds: float) -> None:
        """A whole run ended."""
        self.warmed_up(run.stats)
        self._n_runs += 1
        self._written += run.stats.predicted_n
        self._seconds[prompt, run.contender] = seconds

    def reckoned(self, n_tokens: int, seconds: float) -> None:
        """The draft model has followed an answer of so many tokens, for what drafts could bring at most."""
        self._n_followed += n_tokens
        self._following_s += seconds

    def seconds(self, to_come: Iterable[tuple[Prompt, str]], to_reckon: Collection[Prompt] = ()) -> float | None:
        """Return the seconds left; None while unknown.

        Args:
            to_come: Prompt and contender of every run.
            to_reckon: The prompts whose answers the draft model is to follow besides.
        """
        following = self._following() if to_reckon else 0.0
        if following is None:
            return None
        total = len(to_reckon) * following
        for prompt, name in to_come:
            one = self._seconds.get((prompt, name))
            one = one if one is not None else self._by_tokens(prompt)
            if one is None:
                return None
            total += one
        return total

    @property
    def _tokens(self) -> float | None:
        """Expected tokens of an answer."""
        return self._written / self._n_runs if self._n_runs else self._most

    def _following(self) -> float | None:
        """Seconds for which the draft model follows an answer; it has read about the same before."""
        one = self._following_s / self._n_followed if self._n_followed else self._a_followed_s
        return one * self._tokens if one is not None and self._tokens is not None else None

    def _by_tokens(self, prompt: Prompt) -> float | None:
        """Answers seldom end before they must, and where they do, those to come are taken for as long as those."""
        tokens = self._tokens
        read = self._read_ns / self._n_read if self._n_read else self._a_read
        written = self._write_ns / self._n_predicted if self._n_predicted else self._a_written
        if tokens is None or written is None:
            return None
        return (self._lengths.get(prompt, 0) * (read or 0.0) + tokens * written) / 1e9
