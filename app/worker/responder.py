"""Answer a conversation: from messages to text events."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from app.engine.auto.curve import CostModel
from app.engine.auto.measure_costs import LEARNING, FirstCosts
from app.engine.auto.pair_statistics import PairStatistics
from app.engine.auto.strategy import AutomaticDrafting
from app.engine.drafting_report import capitalized
from app.engine.events import DraftLost, PromptProgress, Step, StepDetails, TokenProbability
from app.engine.fixed import FixedDrafting, NoDrafting
from app.engine.generator import Generator, Request
from app.engine.interfaces import UNCONTROLLED, Clock, Controls, Strategy
from app.engine.sources import Source
from app.engine.stats import GenerationStats
from app.engine.text.call_reader import CallReader
from app.engine.text.reasoning import RenderedPrompt
from app.engine.text.segments import Segment
from app.engine.text.stream import RepetitionDetector, TextStream
from app.engine.text.tool_calls import ToolCall
from app.engine.types import AutoDraft, Drafting, DraftParams, FinishReason
from app.models.pair_info import context_limit
from app.worker.events import Event, Finished, Notice
from app.worker.request import (
    AnswerRequest,
    LoadedPair,
    prompt_of,
    readable_by,
    refuse_overflow,
    written,
)

if TYPE_CHECKING:
    from app.llama.sampler import SamplerChain

_MOST_BESIDE = 4096
"""Tokens of earlier answers that are indexed for n-gram drafting."""
_LONG_TOKEN = 16
"""Characters that few tokens exceed."""


def answer(
    pair: LoadedPair,
    request_id: int,
    request: AnswerRequest,
    controls: Controls = UNCONTROLLED,
    clock: Clock = time.perf_counter_ns,
    cpu_clock: Clock = time.process_time_ns,
) -> Iterator[Event]:
    """Yield prompt progress, one `Step` per verify step, notices, and `Finished` at the end of an answer.

    Raises AppError if the prompt does not fit, the template refuses, or the target failed.
    """
    request = readable_by(pair, request)
    prompt = prompt_of(pair, request)
    if request.text is None:
        refuse_overflow(pair, request, len(prompt.tokens))
    if not prompt.tokens:
        # As in llama-server, the answer to an empty prompt is empty.
        yield Finished(request_id, FinishReason.LENGTH, "", "", GenerationStats(drafter="none", mode="off"))
        return
    sampler = pair.new_sampler(request.sampling, request.guidance, request.tools)
    try:
        pair.threads.yield_cpu()
        work_clock = pair.threads.work_clock(clock, cpu_clock)
        first = _first_costs(pair, request.drafting)
        strategy = _strategy(pair, request, work_clock) if first is None else NoDrafting(LEARNING)
        if pair.drafter is not None:
            drafts = first is not None or not isinstance(strategy, NoDrafting)
            pair.drafter.prepare(prompt.tokens, drafts=drafts)
        generator = Generator(pair.target, strategy, sampler, clock, work_clock, pair.drafter)
        yield from _generate(pair, request_id, request, prompt, generator, sampler, controls, first)
    finally:
        sampler.close()


def _first_costs(pair: LoadedPair, drafting: Drafting) -> FirstCosts | None:
    """Return an estimator for the costs of automatic drafting in this answer, if they are unknown and needed."""
    known = pair.memory
    if not isinstance(drafting, AutoDraft) or not pair.info.sources(drafting):
        return None
    # An estimate without drafts corrects itself only by another estimate.
    if known is not None and not (known.is_estimated and known.idle_answers):
        return None
    target, draft = pair.info.target, pair.info.draft
    share = draft.size_bytes / target.size_bytes if draft is not None else 0.0
    return FirstCosts(pair.target.n_rollback + 1, min(1.0, share))


def _generate(
    pair: LoadedPair,
    request_id: int,
    request: AnswerRequest,
    prompt: RenderedPrompt,
    generator: Generator,
    sampler: SamplerChain,
    controls: Controls,
    first: FirstCosts | None,
) -> Iterator[Event]:
    """Translate the engine's token events into text events; begin to draft when the costs of a new pair are known."""
    stream = TextStream(
        request.stops, ends=prompt.stops, markup=prompt.markup, part=prompt.part, begun=request.prefill is not None
    )
    marks = prompt.tool_marks
    piece = pair.model.piece
    collector = _Collector(lambda token: marks.get(token) or piece(token), stream, request, generator.clock)
    gain, lost = pair.memory.gain if pair.memory is not None else None, None
    sources = pair.info.sources(request.drafting)
    generator.stats.drafter = "+".join(sources) or None

    def prepare_caches() -> None:
        if request.conversation is not None:
            pair.caches.prepare(prompt.tokens, request.conversation)
        if not request.cache_prompt:
            pair.target.rollback(0)

    asked = Request(
        prompt=prompt.tokens,
        is_end=pair.model.is_end,
        max_tokens=request.max_tokens,
        observe=collector.observe,
        controls=controls,
        prepare=prepare_caches,
        n_allowed=sampler.n_allowed if request.guidance.has_grammar or request.tools else None,
        n_top=request.n_top,
        probes=first.probes if first is not None else (),
        on_probe=first.observe_probe if first is not None else lambda size, ns: None,
        number=request_id,
    )
    for event in generator.run(asked):
        pair.threads.yield_cpu()
        match event:
            case PromptProgress():
                yield event
            case Step():
                details = _details(pair, event) if request.with_details else None
                chances = _probabilities(pair, event, request.n_top)
                yield replace(event, segments=collector.take(), details=details, probabilities=chances)
                if first is not None and first.observe(event):
                    pair.memory = PairStatistics.estimated(first.profile())
                    generator.use(_strategy(pair, request, generator.work_clock))
                    first = None
            case DraftLost(reason=why):
                lost = why
                what = capitalized((pair.info.draft_kind or Source.MODEL).failed)
                yield Notice(f"{what}, the answer goes on without it: {why}")
    reason = generator.finish or FinishReason.STOP
    is_loop = reason is FinishReason.REPETITION
    collector.flush(ended=reason is FinishReason.STOP)
    strategy = generator.strategy
    status = strategy.status
    if status is not None and not controls.drafts():
        status = status.switched_off
    if isinstance(strategy, AutomaticDrafting):
        if is_loop:
            strategy.statistics.gain = gain
        pair.remember()
    if first is None and isinstance(strategy, NoDrafting):
        sources = ()
    fixed = request.drafting if sources and isinstance(request.drafting, DraftParams) else None
    stats = generator.stats.snapshot()
    stats.drafter = "+".join(sources) or "none"
    stats.mode = "off" if not sources else "auto" if fixed is None else "fixed"
    if is_loop:
        # A loop is easy to draft and says nothing about other text.
        stats.speedup = None
    if rest := collector.take():
        yield Step(request_id, rest, stats, status)
    said = written(request, collector.shown)
    yield Finished(
        request=request_id,
        reason=reason,
        # If the answer may continue, trailing space belongs to it.
        text=said.text.strip() if reason is FinishReason.STOP else said.text.lstrip(),
        reasoning=said.reasoning.strip(),
        stats=stats,
        drafting=status,
        draft_params=fixed,
        seed=None if request.sampling.is_greedy else sampler.seed,
        repeats=collector.repeats,
        at_limit=reason is FinishReason.CONTEXT and context_limit(pair.info).n_ctx <= pair.info.n_ctx,
        lost=lost,
        stop=stream.stop,
        calls=collector.calls,
    )


def _probabilities(pair: LoadedPair, step: Step, n_top: int | None) -> tuple[TokenProbability, ...]:
    seen = step.inspection
    if n_top is None or seen is None:
        return ()
    tops = seen.top or ((),) * len(step.tokens)
    return tuple(
        TokenProbability(
            token, pair.model.piece(token), chosen, tuple(TokenProbability(t, pair.model.piece(t), p) for t, p in top)
        )
        for token, chosen, top in zip(step.tokens, seen.chosen, tops, strict=True)
    )


def _details(pair: LoadedPair, step: Step) -> StepDetails | None:
    """Describe a step in bytes instead of ids; None for the first token, which follows from the prompt."""
    stats, seen = step.stats, step.inspection
    if not stats.verify_steps:
        return None
    n_past = stats.cache_n + stats.prompt_n + stats.predicted_n - len(step.tokens)
    # Other programs would have slowed a single token by the same factor.
    slowdown = step.total_ns / step.work_ns if step.work_ns else 1.0
    return StepDetails(
        number=stats.verify_steps,
        drafted=tuple(pair.model.piece(token) for token in step.draft.tokens),
        sources=step.draft.sources,
        confidences=step.draft.probabilities,
        written=tuple(pair.model.piece(token) for token in step.tokens),
        n_accepted=step.n_accepted,
        chosen=seen.chosen if seen is not None else (),
        declined=seen.declined if seen is not None else None,
        total_ns=step.total_ns,
        plain_ns=slowdown * pair.memory.costs.target_ns(1, n_past) if pair.memory is not None else None,
    )


def _strategy(pair: LoadedPair, request: AnswerRequest, clock: Clock) -> Strategy:
    """Return the requested strategy, or no drafting if the pair lacks what it needs."""
    drafting = request.drafting
    sources = pair.info.sources(drafting)
    drafter = pair.drafter if any(not source.is_free for source in sources) else None
    if isinstance(drafting, AutoDraft) and sources and pair.memory is not None:
        free = [source for source in pair.free_sources if source.kind in sources]
        for source in free:
            source.configure(drafting.min_match, _tokens_of(pair, request.beside))
        return AutomaticDrafting(pair.memory, [*filter(None, [drafter]), *free], clock)
    if isinstance(drafting, DraftParams) and drafter is not None:
        # Automatic drafting does not learn from fixed drafts.
        costs = CostModel(pair.memory.costs.snapshot()) if pair.memory is not None else None
        return FixedDrafting(drafter, drafting, costs, clock)
    return NoDrafting(pair.info.why_no_draft(drafting))


def _tokens_of(pair: LoadedPair, texts: Sequence[str]) -> Iterator[Sequence[int]]:
    room = _MOST_BESIDE
    for text in texts:
        tokens = pair.tokenize(text[: room * _LONG_TOKEN])[:room]
        yield tokens
        room -= len(tokens)
        if room <= 0:
            return


class _Collector:
    def __init__(self, piece: Callable[[int], bytes], stream: TextStream, request: AnswerRequest, clock: Clock) -> None:
        self._piece = piece
        self._clock = clock
        self._most_ns = 1_000_000 * max(0, request.max_predict_ms or 0)
        self._began: int | None = None
        self._stream = stream
        # Text under a grammar may repeat itself, such as a list of zeros.
        detects = request.stop_on_repeat and request.guidance.schema is None and not request.guidance.grammar
        self._detector = RepetitionDetector() if detects else None
        self.repeats = 0
        self._calls = CallReader(request.tools, must_call=request.guidance.must_call) if request.tools else None
        self._fresh: list[Segment] = []
        self.shown: list[Segment] = []

    def observe(self, token: int, source: Source | None) -> FinishReason | None:
        piece = self._piece(token)
        self._fresh += self._separated(self._stream.push(piece, source, token))
        if self._stream.stopped:
            return FinishReason.STOP
        if self._most_ns and self._is_late(piece):
            return FinishReason.LENGTH
        if self._detector is not None:
            self.repeats = self._detector.push(token)
        return FinishReason.REPETITION if self.repeats else None

    def _is_late(self, piece: bytes) -> bool:
        """Return whether a line ends after the time limit, which begins with the first token."""
        now = self._clock()
        self._began = now if self._began is None else self._began
        return b"\n" in piece and now - self._began > self._most_ns

    def flush(self, *, ended: bool) -> None:
        self._fresh += self._separated(self._stream.flush(ended=ended))
        if self._calls is not None:
            # A stop string can cut a call too.
            self._fresh += self._calls.end(is_cut=not ended or self._stream.stop is not None)

    def _separated(self, segments: list[Segment]) -> list[Segment]:
        return segments if self._calls is None else self._calls.push(segments)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """Return the complete calls."""
        return tuple(self._calls.calls) if self._calls is not None else ()

    def take(self) -> tuple[Segment, ...]:
        """Return the segments since the last call."""
        fresh, self._fresh = self._fresh, []
        self.shown += fresh
        return tuple(fresh)
