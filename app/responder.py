"""Answers: from a conversation to text events, over whatever models stand behind the interfaces."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from app.chat.message import Begun, Message
from app.engine.cache import TokenCache
from app.engine.drafters import LookupIndex, ModelDrafter
from app.engine.generator import Generator, Request
from app.engine.interfaces import Cancelled, Clock, Sampler, Strategy
from app.engine.strategies import AutomaticDrafting, FixedDrafting, PlainDecoding
from app.engine.text import Segment, TextStream
from app.engine.tuning.memory import Memory
from app.engine.types import (
    AutoDraft,
    Drafting,
    DraftLost,
    DraftParams,
    FinishReason,
    Origin,
    PromptProgress,
    SamplingParams,
    Step,
)
from app.errors import Interrupted
from app.events import AnswerPlan, Event, Finished, Measuring, Notice, PairInfo, PromptProgressed, StepCompleted

_QUICKLY_READ = 1024
"""Tokens that may be evaluated once more without anybody minding."""


class BuiltPrompt(Protocol):
    """A conversation as token ids."""

    @property
    def tokens(self) -> Sequence[int]: ...

    @property
    def reasoning_opened(self) -> bool:
        """Whether it ends inside the model's thinking."""


class SeededSampler(Sampler, Protocol):
    """A sampler that owns native state and knows its seed."""

    @property
    def seed(self) -> int: ...

    def close(self) -> None: ...


class LoadedPair(Protocol):
    """Two loaded models, or one, ready to answer. `app.llama.pair` provides it."""

    @property
    def info(self) -> PairInfo: ...

    @property
    def notices(self) -> Sequence[str]:
        """What happened while loading that the user should know."""

    @property
    def target(self) -> TokenCache: ...

    @property
    def can_draft(self) -> bool:
        """Whether a rejected draft can be undone in the target."""

    @property
    def drafter(self) -> ModelDrafter | None:
        """The draft model, or None if there is none or it does not fit."""

    @property
    def memory(self) -> Memory | None:
        """What automatic drafting knows about the pair; None before the first calibration."""

    def calibrate(self, cancelled: Cancelled) -> Iterator[float]:
        """Measure what `memory` begins with. Yields the share done."""

    def remember(self) -> None:
        """Keep `memory` for the next run."""

    def build_prompt(self, messages: Sequence[Message], begun: Begun | None = None) -> BuiltPrompt:
        """The prompt for the next answer, or for the rest of one; tokens of it that `target` holds are taken over."""

    def new_sampler(self, params: SamplingParams) -> SeededSampler: ...

    def piece(self, token: int) -> bytes:
        """The bytes a token shows as; empty for control tokens."""

    def is_end(self, token: int) -> bool: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class AnswerRequest:
    """One answer to give.

    Attributes:
        messages: The conversation, ending with the user.
        sampling: The target's sampler chain.
        drafting: Automatic, fixed parameters, or None for plain decoding.
        max_tokens: Most tokens to generate; None for as many as fit.
        stops: Strings that end the answer.
        begun: An answer that ended early and is to go on where it did; None for a new one.
    """

    messages: tuple[Message, ...]
    sampling: SamplingParams = field(default_factory=SamplingParams)
    drafting: Drafting = None
    max_tokens: int | None = None
    stops: tuple[str, ...] = ()
    begun: Begun | None = None


def answer(
    pair: LoadedPair,
    request_id: int,
    request: AnswerRequest,
    cancelled: Cancelled,
    clock: Clock = time.perf_counter_ns,
) -> Iterator[Event]:
    """Generate one answer.

    Args:
        pair: Who answers.
        request_id: The number that the events carry.
        request: What is asked.
        cancelled: Read between decodes.
        clock: Monotonic nanoseconds; what it does not count costs nothing.

    Yields:
        Prompt progress, one `StepCompleted` per verify round, notices, and `Finished` at the end.

    Raises:
        AppError: The prompt does not fit, the template refuses, or the target failed.
    """
    prompt = pair.build_prompt(request.messages, request.begun)
    sampler = pair.new_sampler(request.sampling)
    try:
        yield from _answer(pair, request_id, request, prompt, sampler, cancelled, clock)
    finally:
        sampler.close()


def _answer(
    pair: LoadedPair,
    request_id: int,
    request: AnswerRequest,
    prompt: BuiltPrompt,
    sampler: SeededSampler,
    cancelled: Cancelled,
    clock: Clock,
) -> Iterator[Event]:
    if isinstance(request.drafting, AutoDraft) and _must_measure(pair):
        # A stop while measuring leaves no memory; the answer below then ends before it begins.
        with suppress(Interrupted):
            for share in pair.calibrate(cancelled):
                yield Measuring(request_id, share)
    strategy = _strategy(pair, request.drafting, clock)
    generator = Generator(pair.target, strategy, sampler, clock)
    plan = _plan(pair, request, strategy, sampler)
    stream = TextStream(request.stops, reasoning_opened=prompt.reasoning_opened, begun=request.begun is not None)
    collector = _Collector(pair.piece, stream, request.begun)
    run = generator.run(
        Request(
            prompt=prompt.tokens,
            is_end=pair.is_end,
            max_tokens=request.max_tokens,
            observe=collector.observe,
            cancelled=cancelled,
        )
    )
    for event in run:
        match event:
            case PromptProgress(drafting, done, total):
                yield PromptProgressed(request_id, drafting, done, total)
            case Step(stats=stats, status=status):
                yield StepCompleted(request_id, collector.take(), stats, status)
            case DraftLost(reason=why):
                yield Notice(f"Drafting stopped, the answer goes on without it: {why}")
    reason = generator.finish or FinishReason.STOP
    collector.flush(ended=reason is FinishReason.STOP)
    if rest := collector.take():
        yield StepCompleted(request_id, rest, generator.stats.snapshot(), strategy.status)
    if isinstance(strategy, AutomaticDrafting):
        pair.remember()
    yield Finished(
        request=request_id,
        reason=reason,
        # Where the answer may go on, the space at its end belongs to it.
        text=collector.text.strip() if reason is FinishReason.STOP else collector.text.lstrip(),
        reasoning=collector.reasoning.strip(),
        stats=generator.stats.snapshot(),
        plan=plan,
        drafting=strategy.status,
    )


def _must_measure(pair: LoadedPair) -> bool:
    """Whether costs are to be measured first. That empties the caches, so a second look waits for a short one."""
    memory = pair.memory
    return memory is None or (memory.wants_second_look and len(pair.target) <= _QUICKLY_READ)


def _strategy(pair: LoadedPair, drafting: Drafting, clock: Clock) -> Strategy:
    """The strategy that was asked for, as far as the pair has what it needs."""
    if isinstance(drafting, AutoDraft) and pair.memory is not None and pair.can_draft:
        drafter = pair.drafter if drafting.model else None
        return AutomaticDrafting(pair.memory, drafter, LookupIndex() if drafting.lookup else None, clock)
    if isinstance(drafting, DraftParams) and pair.drafter is not None:
        return FixedDrafting(pair.drafter, drafting)
    return PlainDecoding()


def _plan(pair: LoadedPair, request: AnswerRequest, strategy: Strategy, sampler: SeededSampler) -> AnswerPlan:
    mode, drafter, params = "off", "none", None
    if isinstance(strategy, FixedDrafting):
        mode, drafter, params = "fixed", "model", strategy.params
    elif isinstance(strategy, AutomaticDrafting):
        mode, drafter = "auto", "+".join(strategy.sources) or "none"
    return AnswerPlan(mode, drafter, params, None if request.sampling.is_greedy else sampler.seed)


class _Collector:
    """Gathers the text of tokens as the engine emits them."""

    def __init__(self, piece: Callable[[int], bytes], stream: TextStream, begun: Begun | None) -> None:
        self._piece = piece
        self._stream = stream
        self._begun = begun or Begun("")
        self._fresh: list[Segment] = []
        self._shown: list[Segment] = []

    def observe(self, token: int, origin: Origin) -> FinishReason | None:
        self._fresh += self._stream.push(self._piece(token), origin)
        return FinishReason.STOP if self._stream.stopped else None

    def flush(self, *, ended: bool) -> None:
        self._fresh += self._stream.flush(ended=ended)

    def take(self) -> tuple[Segment, ...]:
        """The segments since the last call."""
        fresh, self._fresh = self._fresh, []
        self._shown += fresh
        return tuple(fresh)

    @property
    def text(self) -> str:
        return self._begun.text + "".join(s.text for s in self._shown if not s.reasoning)

    @property
    def reasoning(self) -> str:
        return self._begun.reasoning + "".join(s.text for s in self._shown if s.reasoning)
