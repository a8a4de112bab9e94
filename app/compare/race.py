"""Races: contenders answer one prompt in turn, each alone, each from the same state, in alternating order.

Honest by construction: before every run both caches are cut back to the same beginning, to nothing or to the
conversation before the prompt, so no one finds what another one left; one short run each warms up and is not counted;
the order turns round from round to round, so that a machine that gets slower or faster in between does so for
everybody; and the draft model's reading of the prompt counts against drafting.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from app.compare.tap import Tap, begin_from
from app.core.errors import AppError, ComputeError, Interrupted
from app.engine.interfaces import Cancelled, Controls
from app.engine.stats import GenerationStats
from app.engine.types import Drafting, FinishReason
from app.hardware.processors import others_seconds
from app.worker.events import Event, Finished, Notice, Step
from app.worker.request import AnswerRequest, LoadedPair
from app.worker.responder import answer

WARM_UP = 0
"""The number of the round that is not counted."""
WARM_UP_TOKENS = 16
"""Enough for the weights to be in memory, the kernels to be ready and automatic drafting to have measured."""


@dataclass(frozen=True, slots=True)
class VerifyStep:
    """One verify round of a run.

    Attributes:
        first: Index in the answer of the first token it emitted; the answer's token 0 came out of the prompt.
        tokens: Tokens it emitted.
        drafted: Tokens that were submitted to it.
        accepted: How many of those were kept.
        ns: Nanoseconds it took, the drafting included.
    """

    first: int
    tokens: int
    drafted: int
    accepted: int
    ns: int


@dataclass(frozen=True, slots=True)
class Run:
    """One answer of one contender.

    Attributes:
        contender: Its name.
        prompt: Token ids before the answer; empty for a server, which does not tell.
        tokens: Token ids of the answer, an end token included; empty for a server.
        text: The answer.
        reason: Why it ended.
        stats: Its counters.
        steps: Its verify rounds, in order; empty for a server.
        notices: What happened on the way, such as a draft that was lost.
        drafter: "model", "ngram", "model+ngram" or "none".
        why: Why nothing was drafted; "" if something was, or nothing is known to be why.
        wall_s: Seconds from its beginning to its end; 0 where no one looked at what other programs did meanwhile.
        others_s: Seconds that other programs ran in that time, on all processors together.
        reasoning: What was thought before the answer.
        threads: CPU thread counts that it used; several where other programs came or went.
    """

    contender: str
    prompt: tuple[int, ...]
    tokens: tuple[int, ...]
    text: str
    reason: FinishReason
    stats: GenerationStats
    steps: tuple[VerifyStep, ...] = ()
    notices: tuple[str, ...] = ()
    drafter: str = "none"
    why: str = ""
    wall_s: float = 0.0
    others_s: float = 0.0
    reasoning: str = ""
    threads: tuple[int, ...] = ()

    @property
    def ns_per_token(self) -> float | None:
        """See `ns_per_token`."""
        return ns_per_token(self.stats)


def ns_per_token(stats: GenerationStats) -> float | None:
    """Nanoseconds a token after the first, the draft's reading of the prompt included; None for one token.

    The prompt gave the first token.
    """
    n = stats.predicted_n - 1
    return stats.answer_ns / n if n > 0 and stats.answer_ns > 0 else None


Answer = Callable[[AnswerRequest, Cancelled], Generator[Event, None, Run]]


@dataclass(frozen=True, slots=True)
class Contender:
    """Somebody who answers.

    Attributes:
        name: What it is called, different for each in a race.
        answer: Answers a request, each time from the same state; gives every event on the way and the run in the end.
    """

    name: str
    answer: Answer


@dataclass(frozen=True, slots=True)
class RaceEvent:
    """Something a contender did.

    Attributes:
        contender: Its name.
        round: The round, from 1; `WARM_UP` is not counted.
        event: The responder's event.
    """

    contender: str
    round: int
    event: Event


@dataclass(frozen=True, slots=True)
class RunEnded:
    """A contender's turn is over.

    Attributes:
        round: The round, from 1; `WARM_UP` is not counted.
        run: What came of it.
    """

    round: int
    run: Run


@dataclass(frozen=True, slots=True)
class RaceBroken:
    """A contender failed, and the race ends; the rounds before count.

    Attributes:
        error: Why.
    """

    error: AppError


Round = Mapping[str, Run]
"""One run of every contender, by name."""
RaceProgress = RaceEvent | RunEnded | RaceBroken


def in_process(
    pair: LoadedPair,
    name: str,
    drafting: Drafting,
    *,
    prefix: Sequence[int] = (),
    number: int = 0,
    clock: Callable[[], float] = time.monotonic,
    others: Callable[[], float] = others_seconds,
) -> Contender:
    """A contender that answers with the loaded pair.

    Args:
        pair: The pair.
        name: What the contender is called.
        drafting: How it drafts.
        prefix: The beginning of the prompt that both models have read before a run; () for empty caches.
        number: The request that its events carry.
        clock: Seconds.
        others: Seconds that other programs have run so far.
    """

    def run(request: AnswerRequest, cancelled: Cancelled) -> Generator[Event, None, Run]:
        try:
            yield from begin_from(pair, prefix, cancelled, number)
        except Interrupted:
            return Run(name, (), (), "", FinishReason.CANCELLED, GenerationStats())
        tap = Tap(pair, prefix)
        steps: list[VerifyStep] = []
        notices: list[str] = []
        finished: Finished | None = None
        before = GenerationStats()
        began, theirs = clock(), others()
        for event in answer(tap, number, replace(request, drafting=drafting), Controls(cancelled)):
            match event:
                case Step(stats=stats):
                    if stats.verify_steps > before.verify_steps:
                        steps.append(_step(before, stats))
                    before = stats
                case Notice(text):
                    notices.append(text)
                case Finished():
                    finished = event
            yield event
        assert finished is not None
        if finished.lost and pair.drafter is not None and pair.drafter.cache.is_spent:
            # It would draft nothing in the rounds that follow either, and they would measure nothing.
            raise ComputeError(
                f"The draft model failed: {finished.lost}", "Compare again; one that keeps failing is left out."
            )
        return Run(
            contender=name,
            prompt=tap.prompt,
            tokens=tuple(tap.tokens),
            text=finished.text,
            reasoning=finished.reasoning,
            reason=finished.reason,
            stats=finished.stats,
            steps=tuple(steps),
            notices=tuple(notices),
            drafter=finished.plan.drafter,
            why=finished.why_undrafted,
            wall_s=clock() - began,
            others_s=others() - theirs,
            threads=tuple(sorted(tap.threads)),
        )

    return Contender(name, run)


def race(
    contenders: Sequence[Contender],
    request: AnswerRequest,
    repeat: int,
    cancelled: Cancelled,
    *,
    warm_up_tokens: int = WARM_UP_TOKENS,
    first: int = 1,
) -> Generator[RaceProgress, None, list[Round]]:
    """Let everybody answer `repeat` times.

    Args:
        contenders: Who takes part; names must differ.
        request: What to answer; its `drafting` is the contenders' business. A random draw needs a seed.
        repeat: Counted rounds.
        cancelled: Stops in the middle of a run.
        warm_up_tokens: Length of the runs that are not counted; 0 leaves them out.
        first: Number of the first round, for a race that goes on with an earlier one.

    Yields:
        Every event with its contender, and every run; a `RaceBroken` at the end where one failed.

    Returns:
        The rounds that everybody finished: after a stop or a failure fewer than asked for, never a half one.
    """
    rounds: list[Round] = []
    try:
        if warm_up_tokens:
            short = min(warm_up_tokens, request.max_tokens or warm_up_tokens)
            yield from _round(WARM_UP, contenders, replace(request, max_tokens=short), cancelled)
        for number in range(first, first + repeat):
            if cancelled():
                break
            done = yield from _round(number, in_order(contenders, number), request, cancelled)
            if len(done) < len(contenders):
                break
            rounds.append({contender.name: done[contender.name] for contender in contenders})
    except AppError as error:
        yield RaceBroken(error)
    return rounds


def in_order(contenders: Sequence[Contender], number: int) -> Iterable[Contender]:
    """Return who goes when in a round: forwards in odd ones, backwards in even ones."""
    return contenders if number % 2 else list(reversed(contenders))


def _round(
    number: int, contenders: Iterable[Contender], request: AnswerRequest, cancelled: Cancelled
) -> Generator[RaceProgress, None, dict[str, Run]]:
    """Everybody's turn; those that were not cut short."""
    done: dict[str, Run] = {}
    for contender in contenders:
        if cancelled():
            break
        steps = Steps(contender.answer(request, cancelled))
        for event in steps:
            yield RaceEvent(contender.name, number, event)
        run = steps.result
        if run.reason is FinishReason.CANCELLED:
            break
        done[contender.name] = run
        yield RunEnded(number, run)
    return done


def _step(before: GenerationStats, after: GenerationStats) -> VerifyStep:
    return VerifyStep(
        first=before.predicted_n,
        tokens=after.predicted_n - before.predicted_n,
        drafted=after.draft_n - before.draft_n,
        accepted=after.draft_n_accepted - before.draft_n_accepted,
        ns=after.predicted_ns - before.predicted_ns,
    )


StepT = TypeVar("StepT")
ResultT = TypeVar("ResultT")


class Steps(Generic[StepT, ResultT]):
    """The steps of a piece of work, for a `for` loop, and its result after the last of them.

    Args:
        work: Is run as far as it is iterated over.
    """

    def __init__(self, work: Generator[StepT, None, ResultT]) -> None:
        self._work = work
        self._result: ResultT

    def __iter__(self) -> Iterator[StepT]:
        self._result = yield from self._work

    @property
    def result(self) -> ResultT:
        """Return what the work has returned; there is none before its end."""
        return self._result
