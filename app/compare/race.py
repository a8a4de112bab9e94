"""Races: sides answer one prompt in turn, each alone and from the same state.

Before every run both caches are cut back to the same beginning. One short warm-up run each does not count. The order
is reversed every other round, so that a machine that changes speed does so for all. The time in which the draft model
reads the prompt counts against drafting.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from app.compare.recorder import Recorder, read_prefix
from app.core.errors import AppError, ComputeError, Interrupted
from app.engine.interfaces import Cancelled, Controls
from app.engine.stats import GenerationStats
from app.engine.types import Drafting, FinishReason
from app.hardware.cpu import others_seconds
from app.worker.events import Event, Finished, Notice, Step
from app.worker.request import AnswerRequest, LoadedPair
from app.worker.responder import answer

WARM_UP = 0
"""Number of the round that does not count."""
WARM_UP_TOKENS = 16
"""Enough to load the weights, compile the kernels and calibrate automatic drafting."""


@dataclass(frozen=True, slots=True)
class VerifyStep:
    """One verify step of a run.

    Attributes:
        first: Index in the answer of its first token; the prompt gave token 0.
        tokens: Emitted tokens.
        ns: Nanoseconds, drafting included.
    """

    first: int
    tokens: int
    drafted: int
    accepted: int
    ns: int


@dataclass(frozen=True, slots=True)
class Run:
    """One answer of one side.

    Attributes:
        contender: Name of the side.
        prompt: Token ids of the prompt.
        tokens: Token ids of the answer with its end token.
        steps: Its verify steps.
        notices: Notices of the responder, such as a lost draft model.
        drafter: "model", "ngram", "model+ngram" or "none".
        why: Why nothing was drafted, if known; "" otherwise.
        wall_s: Seconds that it took; 0 if unknown.
        others_s: CPU seconds of other programs in that time.
        threads: CPU thread counts that it used.
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
        return ns_per_token(self.stats)


def ns_per_token(stats: GenerationStats) -> float | None:
    """Return nanoseconds per token after the first, the draft's prompt included; None for one token."""
    n = stats.predicted_n - 1
    return stats.answer_ns / n if n > 0 and stats.answer_ns > 0 else None


def cancelled_run(name: str) -> Run:
    return Run(name, (), (), "", FinishReason.CANCELLED, GenerationStats())


@dataclass(frozen=True, slots=True)
class Contender:
    """A side that can answer.

    Attributes:
        name: Unique in a race.
        answer: Answers a request from the same state each time; yields every event and returns the run.
    """

    name: str
    answer: Callable[[AnswerRequest, Cancelled], Generator[Event, None, Run]]


@dataclass(frozen=True, slots=True)
class RunBegan:
    """A side begins to answer in this round; the events up to `RunEnded` are its own."""

    side: str
    round: int


@dataclass(frozen=True, slots=True)
class RunEnded:
    """A side has answered in this round."""

    round: int
    run: Run


Round = Mapping[str, Run]
"""One run of every side, by name."""
RaceEvent = RunBegan | RunEnded | Event


@dataclass(frozen=True, slots=True)
class Rounds:
    """The rounds that every side finished, and the error that ended the race early."""

    rounds: tuple[Round, ...]
    broken: AppError | None = None


def in_process(
    pair: LoadedPair, name: str, drafting: Drafting, *, prefix: Sequence[int] = (), number: int = 0
) -> Contender:
    """Return a side that answers with the loaded pair.

    Args:
        pair: The pair.
        name: Name of the side.
        drafting: How it drafts.
        prefix: Beginning of the prompt that both models have read before a run; () for empty caches.
        number: Request number of its events.
    """

    def run(request: AnswerRequest, cancelled: Cancelled) -> Generator[Event, None, Run]:
        try:
            yield from read_prefix(pair, prefix, cancelled, number)
        except Interrupted:
            return cancelled_run(name)
        recorder = Recorder(pair, prefix)
        steps: list[VerifyStep] = []
        notices: list[str] = []
        finished: Finished | None = None
        before = GenerationStats()
        began, others_before = time.monotonic(), others_seconds()
        for event in answer(recorder.as_pair, number, replace(request, drafting=drafting), Controls(cancelled)):
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
        if finished.lost and pair.drafter is not None and pair.drafter.cache.is_broken:
            # Without its draft model, further rounds would measure nothing.
            raise ComputeError(
                f"The draft model failed: {finished.lost}", "It is left out until the models are loaded again."
            )
        return Run(
            contender=name,
            prompt=recorder.prompt,
            tokens=tuple(recorder.tokens),
            text=finished.text,
            reason=finished.reason,
            stats=finished.stats,
            steps=tuple(steps),
            notices=tuple(notices),
            drafter=finished.plan.drafter,
            why=finished.why_undrafted,
            wall_s=time.monotonic() - began,
            others_s=others_seconds() - others_before,
            reasoning=finished.reasoning,
            threads=tuple(sorted(recorder.threads)),
        )

    return Contender(name, run)


def race(
    contenders: Sequence[Contender],
    request: AnswerRequest,
    repeat: int,
    cancelled: Cancelled,
    *,
    warm_up: bool = True,
    first: int = 1,
) -> Generator[RaceEvent, None, Rounds]:
    """Let every side answer `repeat` times; an error of a side ends the race and is part of the result.

    Args:
        contenders: The sides.
        request: What to answer; each side sets its own `drafting`. Sampling needs a seed.
        repeat: Rounds that count.
        cancelled: Stops in the middle of a run.
        warm_up: Whether each side first answers with a few tokens.
        first: Number of the first round.
    """
    rounds: list[Round] = []
    try:
        if warm_up:
            short = min(WARM_UP_TOKENS, request.max_tokens or WARM_UP_TOKENS)
            yield from _round(WARM_UP, contenders, replace(request, max_tokens=short), cancelled)
        for number in range(first, first + repeat):
            order = contenders if number % 2 else contenders[::-1]
            done = yield from _round(number, order, request, cancelled)
            if len(done) < len(contenders):
                break
            rounds.append({contender.name: done[contender.name] for contender in contenders})
    except AppError as error:
        return Rounds(tuple(rounds), error)
    return Rounds(tuple(rounds))


def _round(
    number: int, contenders: Sequence[Contender], request: AnswerRequest, cancelled: Cancelled
) -> Generator[RaceEvent, None, dict[str, Run]]:
    """Let each side answer once; returns the runs that were not cancelled."""
    done: dict[str, Run] = {}
    for contender in contenders:
        if cancelled():
            break
        yield RunBegan(contender.name, number)
        run = yield from contender.answer(request, cancelled)
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
    """Iterate over a generator and keep its return value as `result`."""

    result: ResultT

    def __init__(self, work: Generator[StepT, None, ResultT]) -> None:
        self._work = work

    def __iter__(self) -> Iterator[StepT]:
        self.result = yield from self._work
