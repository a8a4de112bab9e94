"""Answers: from a conversation to text events, over whatever models stand behind the interfaces."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

from app.chat.message import Begun, Role
from app.engine.drafters import LookupIndex
from app.engine.generator import Generator, Request
from app.engine.interfaces import Cancelled, Clock, Strategy
from app.engine.repetition import RepetitionWatch
from app.engine.strategies import AutomaticDrafting, FixedDrafting, PlainDecoding
from app.engine.text import Segment, TextStream
from app.engine.types import (
    AutoDraft,
    Drafting,
    DraftLost,
    DraftParams,
    FinishReason,
    GenerationEvent,
    Origin,
    PromptProgress,
    Step,
)
from app.errors import ContextOverflowError, Interrupted
from app.events import (
    AnswerPlan,
    Event,
    Finished,
    Measuring,
    Notice,
    PromptProgressed,
    RoundDetails,
    StepCompleted,
)
from app.request import AnswerRequest, BuiltPrompt, LoadedPair, SeededSampler
from app.waking_clock import WakingClock

__all__ = ["AnswerRequest", "BuiltPrompt", "LoadedPair", "SeededSampler", "answer"]

_QUICKLY_READ = 1024
"""Tokens that may be evaluated once more without anybody minding."""
_SHORTER = "Shorten it, or ask for a longer context (--ctx)."
_ANEW = "Start a new conversation, or ask for a longer context (--ctx)."


def answer(
    pair: LoadedPair,
    request_id: int,
    request: AnswerRequest,
    cancelled: Cancelled,
    inspected: Callable[[], bool] = lambda: False,
    clock: Clock | None = None,
    drafts: Callable[[], bool] = lambda: True,
) -> Iterator[Event]:
    """Generate one answer.

    Args:
        pair: Who answers.
        request_id: What the events carry as `request`.
        request: What is to be answered, and how.
        cancelled: Read between decodes.
        inspected: Read in every round: whether its details are wanted.
        clock: Monotonic nanoseconds; what it does not count costs nothing. None counts while this process runs.
        drafts: Read in every round: whether it may be drafted.

    Yields:
        Prompt progress, one `StepCompleted` per verify round, notices, and `Finished` at the end.

    Raises:
        AppError: The prompt does not fit, the template refuses, or the target failed.
    """
    if clock is None:
        with WakingClock() as waking:
            yield from answer(pair, request_id, request, cancelled, inspected, waking, drafts)
        return
    prompt = pair.build_prompt(request.messages, request.begun)
    _refuse_overflow(pair, request, len(prompt.tokens))
    sampler = pair.new_sampler(request.sampling)
    try:
        pair.give_way()
        if isinstance(request.drafting, AutoDraft) and drafts() and _must_measure(pair):
            # A stop while measuring leaves no memory; the answer below then ends before it begins.
            with suppress(Interrupted):
                for share in pair.calibrate(cancelled):
                    yield Measuring(request_id, share)
        strategy = _strategy(pair, request.drafting, clock)
        stream = TextStream(request.stops, reasoning_opened=prompt.reasoning_opened, begun=request.begun is not None)
        collector = _Collector(pair.piece, stream, request.begun)
        generator = Generator(pair.target, strategy, sampler, clock)
        steps = generator.run(
            Request(
                prompt=prompt.tokens,
                is_end=pair.is_end,
                max_tokens=request.max_tokens,
                observe=collector.observe,
                cancelled=cancelled,
                inspected=inspected,
                drafts=drafts,
            )
        )
        yield from _told(pair, request_id, steps, collector)
        reason = generator.finish or FinishReason.STOP
        collector.flush(ended=reason is FinishReason.STOP)
        if rest := collector.take():
            yield StepCompleted(request_id, rest, generator.stats.snapshot(), strategy.status if drafts() else None)
        if not generator.has_begun_drafting:
            strategy = PlainDecoding()
        if isinstance(strategy, AutomaticDrafting):
            pair.remember()
        yield Finished(
            request=request_id,
            reason=reason,
            # Where the answer may go on, the space at its end belongs to it.
            text=collector.text.strip() if reason is FinishReason.STOP else collector.text.lstrip(),
            reasoning=collector.reasoning.strip(),
            stats=generator.stats.snapshot(),
            plan=_plan(strategy, request, sampler),
            drafting=strategy.status if drafts() else None,
            repeating=collector.repetition.longest,
        )
    finally:
        sampler.close()


def _refuse_overflow(pair: LoadedPair, request: AnswerRequest, n_tokens: int) -> None:
    """Refuse what does not fit, and say whose length it is: nobody is to shorten a prompt of one word.

    Args:
        pair: Who is to answer.
        request: What was asked.
        n_tokens: Tokens of all that the target would read.

    Raises:
        ContextOverflowError: They are more than the context holds.
    """
    n_ctx = pair.target.n_ctx
    if n_tokens <= n_ctx:
        return
    held = f"tokens and the context holds {n_ctx:,}."
    if request.begun is not None:
        raise ContextOverflowError(f"With the answer so far there are {n_tokens:,} {held}", _ANEW)
    *before, last = request.messages
    system = [message for message in before if message.role is Role.SYSTEM]
    n_alone = len(pair.build_prompt((*system, last)).tokens) if len(before) > len(system) else n_tokens
    if n_alone > n_ctx:
        raise ContextOverflowError(f"The prompt has {n_alone:,} {held}", _SHORTER, is_prompt=True)
    raise ContextOverflowError(f"With this prompt the conversation has {n_tokens:,} {held}", _ANEW)


def _told(
    pair: LoadedPair, request_id: int, steps: Iterator[GenerationEvent], collector: _Collector
) -> Iterator[Event]:
    """What the engine does, in text."""
    for event in steps:
        pair.give_way()
        match event:
            case PromptProgress(drafting, done, total):
                yield PromptProgressed(request_id, drafting, done, total)
            case Step(stats=stats, status=status):
                details, repeating = _details(pair, event), collector.repetition.length
                yield StepCompleted(request_id, collector.take(), stats, status, details, repeating)
            case DraftLost(reason=why):
                yield Notice(f"Drafting stopped, the answer goes on without it: {why}")


def _details(pair: LoadedPair, step: Step) -> RoundDetails | None:
    """A round in bytes instead of ids; None unless somebody looked at it."""
    seen = step.inspection
    if seen is None:
        return None
    stats = step.stats
    n_past = stats.cache_n + stats.prompt_n + stats.predicted_n - len(step.tokens)
    return RoundDetails(
        number=stats.verify_steps,
        drafted=tuple(pair.piece(token) for token in step.draft.tokens),
        n_model=step.draft.n_model,
        confidences=seen.confidences,
        written=tuple(pair.piece(token) for token in step.tokens),
        n_accepted=step.n_accepted,
        chosen=seen.chosen,
        declined=seen.declined,
        total_ns=seen.total_ns,
        plain_ns=pair.memory.costs.target_ns(1, n_past) if pair.memory is not None else None,
    )


def _must_measure(pair: LoadedPair) -> bool:
    """Whether costs are to be measured first. That empties the caches, so a second look waits for a short one."""
    memory = pair.memory
    return memory is None or (memory.wants_second_look and len(pair.target) <= _QUICKLY_READ)


def _strategy(pair: LoadedPair, drafting: Drafting, clock: Clock) -> Strategy:
    """The strategy that was asked for, as far as the pair has what it needs."""
    if isinstance(drafting, AutoDraft) and pair.memory is not None and pair.can_draft:
        drafter = pair.drafter if drafting.model else None
        index = LookupIndex(drafting.min_match) if drafting.lookup else None
        return AutomaticDrafting(pair.memory, drafter, index, clock)
    if isinstance(drafting, DraftParams) and pair.drafter is not None:
        return FixedDrafting(pair.drafter, drafting)
    return PlainDecoding()


def _plan(strategy: Strategy, request: AnswerRequest, sampler: SeededSampler) -> AnswerPlan:
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
        self.repetition = RepetitionWatch()
        self._fresh: list[Segment] = []
        self._shown: list[Segment] = []

    def observe(self, token: int, origin: Origin) -> FinishReason | None:
        self.repetition.push(token)
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
