"""Races: sides answer the same prompt in turn, one at a time and from the same state.

Before every run both caches are cut back to the same prefix. One short warm-up run per side is not counted. The order
is reversed every other round, so that a machine that slows down affects all sides. The draft model's prefill counts
against drafting.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from app.compare import AUTOMATIC, PLAIN
from app.core.errors import ComputeError, Interrupted, UsageError
from app.engine.cache import TokenCache
from app.engine.drafting_report import capitalized
from app.engine.events import PromptProgress, Step
from app.engine.interfaces import Cancelled, Controls
from app.engine.stats import GenerationStats
from app.engine.types import AutoDraft, Drafting, DraftParams, FinishReason
from app.hardware.cpu import others_seconds
from app.worker.events import Event, Finished, JobProgressed, Notice
from app.worker.jobs import measure, needs_measuring
from app.worker.request import AnswerRequest, LoadedPair
from app.worker.responder import answer

WARM_UP = 0
"""Number of the warm-up round."""
WARM_UP_TOKENS = 16
"""Enough tokens to load the weights and compile the kernels."""


@dataclass(frozen=True, slots=True)
class Side:
    """One way to draft; its name is unique in its race."""

    name: str
    drafting: Drafting


def sides_of(automatic: AutoDraft, fixed: DraftParams | None) -> tuple[Side, ...]:
    """Return the baseline, the fixed parameters if any, and automatic drafting."""
    middle = []
    if fixed is not None:
        # Such as "fixed 7/0.6" for n_max and p_min.
        n_min = f"/{fixed.n_min}" if fixed.n_min else ""
        middle = [Side(f"fixed {fixed.n_max}{n_min}/{fixed.p_min:g}", fixed)]
    return (Side(PLAIN, None), *middle, Side(AUTOMATIC, automatic))


def check_sides(pair: LoadedPair, sides: Sequence[Side]) -> None:
    """Raise UsageError if the pair lacks what a side needs."""
    if pair.drafter is None and any(isinstance(side.drafting, DraftParams) for side in sides):
        raise UsageError("Fixed parameters need a draft model.", "Name one with ⟨draft⟩, or leave them out.")
    for side in sides:
        if reason := pair.info.why_no_draft(side.drafting):
            raise UsageError(f"There is nothing to compare: {reason}.")


@dataclass(frozen=True, slots=True)
class VerifyStep:
    """Emitted and drafted tokens of one verify step, and the answer index of its first token.

    Token 0 follows from the prompt.
    """

    first: int
    tokens: int
    drafted: int


@dataclass(frozen=True, slots=True)
class Run:
    """One answer of one side.

    Attributes:
        tokens: Token ids of the answer with its end token.
        notices: Notices of the responder, such as a lost draft model.
        why: Why nothing was drafted, if known.
        wall_s: Duration in seconds; 0 if unknown.
        others_s: CPU seconds of other programs in that time.
    """

    contender: str
    tokens: tuple[int, ...]
    text: str
    reason: FinishReason
    stats: GenerationStats
    steps: tuple[VerifyStep, ...] = ()
    notices: tuple[str, ...] = ()
    why: str | None = None
    wall_s: float = 0.0
    others_s: float = 0.0
    reasoning: str = ""
    threads: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class RunBegan:
    """A side begins to answer; the events up to `RunEnded` are its own."""

    side: str
    round: int


@dataclass(frozen=True, slots=True)
class RunEnded:
    """A side has answered in this round."""

    round: int
    run: Run


Round = Mapping[str, Run]
"""One run of every side, by name."""


@dataclass(frozen=True, slots=True)
class RoundEnded:
    """Every side has answered in this round, which is not the warm-up."""

    round: int
    runs: Round


def race(
    pair: LoadedPair,
    sides: Sequence[Side],
    request: AnswerRequest,
    round_numbers: Iterable[int],
    cancelled: Cancelled,
    *,
    prefix: Sequence[int] = (),
    number: int = 0,
) -> Iterator[Event]:
    """Let every side answer once per round, with a seed if it samples; an error of a side ends the race.

    In round `WARM_UP`, each side writes a few tokens, which do not count. Before a run, both models have read `prefix`,
    the beginning of the prompt, and nothing else.
    """
    short = replace(request, max_tokens=min(WARM_UP_TOKENS, request.max_tokens or WARM_UP_TOKENS))
    for round_number in round_numbers:
        is_warm_up = round_number == WARM_UP
        done: dict[str, Run] = {}
        for side in sides if is_warm_up or round_number % 2 else sides[::-1]:
            if cancelled():
                return
            yield JobProgressed(number, RunBegan(side.name, round_number))
            if is_warm_up and needs_measuring(pair, side.drafting):
                yield from measure(pair, number, cancelled)
            asked = replace(short if is_warm_up else request, drafting=side.drafting, conversation=None)
            run = yield from answer_as(pair, side.name, asked, cancelled, prefix, number)
            if run is None:
                return
            done[side.name] = run
            yield JobProgressed(number, RunEnded(round_number, run))
        if not is_warm_up:
            yield JobProgressed(number, RoundEnded(round_number, {side.name: done[side.name] for side in sides}))


def answer_as(
    pair: LoadedPair, name: str, request: AnswerRequest, cancelled: Cancelled, prefix: Sequence[int], number: int
) -> Generator[Event, None, Run | None]:
    """Answer once as a side of this name, with exactly the prefix in both caches; return None if canceled."""
    try:
        draft_cache = pair.drafter.cache if pair.drafter is not None else None
        # A side without a draft must start from the same state.
        for cache in [pair.target] + ([draft_cache] if draft_cache is not None else []):
            for done in hold(cache, prefix, cancelled):
                pair.threads.yield_cpu()
                left_s = cache.seconds_to_read(len(prefix) - done)
                yield PromptProgress(number, drafting=False, done=done, total=len(prefix), left_s=left_s)
    except Interrupted:
        return None
    steps: list[VerifyStep] = []
    tokens: list[int] = []
    notices: list[str] = []
    threads: set[int] = set()
    finished: Finished | None = None
    began, others_before = time.monotonic(), others_seconds()
    for event in answer(pair, number, request, Controls(cancelled)):
        threads.add(pair.threads.in_use)
        match event:
            case Step():
                if event.stats.verify_steps > len(steps):
                    steps.append(VerifyStep(len(tokens), len(event.tokens), len(event.draft)))
                tokens += event.tokens
            case Notice(text):
                notices.append(text)
            case Finished():
                finished = event
        yield event
    assert finished is not None
    if finished.lost and pair.drafter is not None and pair.drafter.is_broken:
        # Without the draft model, further rounds would measure nothing.
        what = capitalized(pair.drafter.kind.failed)
        raise ComputeError(f"{what}: {finished.lost}", "It is left out until the models are loaded again.")
    if finished.reason is FinishReason.CANCELLED:
        return None
    return Run(
        contender=name,
        tokens=tuple(tokens),
        text=finished.text,
        reason=finished.reason,
        stats=finished.stats,
        steps=tuple(steps),
        notices=tuple(notices),
        why=finished.why_undrafted,
        wall_s=time.monotonic() - began,
        others_s=others_seconds() - others_before,
        reasoning=finished.reasoning,
        threads=tuple(sorted(threads)),
    )


def hold(cache: TokenCache, prefix: Sequence[int], cancelled: Cancelled) -> Iterator[int]:
    """Make a cache hold exactly these tokens; yield the number of new tokens evaluated."""
    n_cached = cache.reuse([*prefix, 0])
    yield from cache.process(prefix[n_cached:], cancelled)
