"""Generate one answer: read the prompt, then repeat steps of draft, verify, accept, roll back.

The engine knows token ids, not text, and no library. Token ids come in, `GenerationEvent`s go out. Models, sampler,
clock and cancellation implement `app.engine.interfaces`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from app.core.errors import AppError, ContextOverflowError, Interrupted
from app.engine.cache import TokenCache
from app.engine.draft_source import DraftSource
from app.engine.events import DraftLost, GenerationEvent, Inspection, PromptProgress, Step
from app.engine.fixed import NoDrafting
from app.engine.interfaces import UNCONTROLLED, AnswerStart, Clock, Controls, IsEnd, Sampler, StepResult, Strategy
from app.engine.pictures import picture_at
from app.engine.probability import most_probable_tokens, probability_of
from app.engine.sources import Source
from app.engine.stats import GenerationStats
from app.engine.step_timer import StepTimer
from app.engine.types import NO_DRAFT, Draft, FinishReason

Observe = Callable[[int, Source | None], FinishReason | None]
"""Called with each emitted token in order and the source that drafted it; None for the target's own token.

A returned reason ends the answer with that token."""
Verification = tuple[tuple[int, ...], int, FinishReason | None]
"""The accepted tokens followed by the target's own token, unless the answer ended earlier; how many were accepted; and
why the answer ended, if it did."""


def verify(draft: Draft, sample: Callable[[int], int], observe: Observe) -> Verification:
    """Sample the target at each position while it agrees with the draft.

    This is the rule that makes drafting lossless, as in llama.cpp (`common_sampler_sample_and_accept_n`). Output i of
    the batch holds the target's logits after the i-th drafted token; output 0 holds the logits after the last token
    before the draft. Only outputs that are reached are sampled. So a stateful sampler sees the same tokens as without
    drafts, and the emitted tokens have exactly the target's distribution, whatever was drafted.
    """
    tokens: list[int] = []
    n_accepted = 0
    finish: FinishReason | None = None
    for i in range(len(draft) + 1):
        token = sample(i)
        matches = i < len(draft) and token == draft.tokens[i]
        n_accepted += matches
        tokens.append(token)
        finish = observe(token, draft.sources[i] if matches else None)
        if finish is not None or not matches:
            break
    return tuple(tokens), n_accepted, finish


@dataclass(frozen=True)
class Request:
    """An answer to generate.

    Attributes:
        prompt: Token ids, at least one.
        is_end: Whether a token ends the answer. It is emitted and counted.
        max_tokens: Limit of generated tokens; 0 only reads the prompt; None fills the context.
        observe: Called with each emitted token; a returned reason ends the answer with that token.
        controls: Switches that the caller may change during the answer.
        prepare: Called before the prompt is read, to restore caches; counts towards the time to first token.
        n_allowed: How many leading tokens of a draft a grammar allows; only these are verified.
        n_top: Most probable tokens to report at each position; None reports no probabilities.
        probes: Sizes of the batches that read the end of the prompt as in verify steps; the last is 1.
        on_probe: Called with the size of each of these batches and its nanoseconds by the work clock.
    """

    prompt: Sequence[int]
    is_end: IsEnd
    max_tokens: int | None
    observe: Observe
    controls: Controls = UNCONTROLLED
    prepare: Callable[[], None] = lambda: None
    n_allowed: Callable[[Sequence[int]], int] | None = None
    n_top: int | None = None
    probes: tuple[int, ...] = ()
    on_probe: Callable[[int, int], None] = lambda size, ns: None
    number: int = 0


class Generator:
    """Generates one answer. Iterate over `run`, then read `finish` and `stats`.

    Both caches stay consistent, even if the iteration is abandoned: the next answer reuses their tokens. If the
    strategy's draft model fails, the answer continues without it.

    Args:
        work_clock: Leaves out the time of other programs, for learning costs; by default, `clock`.
        drafter: The drafter of the pair, if there is one, for its native time and its reading speed.
    """

    def __init__(
        self,
        target: TokenCache,
        strategy: Strategy,
        sampler: Sampler,
        clock: Clock = time.perf_counter_ns,
        work_clock: Clock | None = None,
        drafter: DraftSource | None = None,
    ) -> None:
        self._target = target
        self.strategy: Strategy = NoDrafting()
        """The current strategy, once it has begun."""
        self._pending_strategy: Strategy | None = strategy
        self._sampler = sampler
        self.clock = clock
        self.work_clock = work_clock or clock
        self._drafter = drafter
        self.stats = GenerationStats()
        self.finish: FinishReason | None = None

    def use(self, strategy: Strategy) -> None:
        """Begin another strategy at the next step that may draft."""
        self._pending_strategy = strategy

    def run(self, request: Request) -> Iterator[GenerationEvent]:
        """Generate until something ends the answer.

        Raises ContextOverflowError before any evaluation if the prompt does not fit, and DecodeError if the target
        failed. A failing drafter is only an event.
        """
        sequence = list(request.prompt)
        if len(sequence) > self._target.n_ctx:
            raise ContextOverflowError(
                f"The prompt has {len(sequence):,} tokens and the context holds {self._target.n_ctx:,}.",
                "Shorten it, or use a longer context (⟨model.ctx⟩).",
                n_prompt=len(sequence),
                n_ctx=self._target.n_ctx,
            )
        try:
            yield from self._first_token(sequence, request)
            if self.finish is None:
                yield from self._steps(sequence, request)
        except Interrupted:
            self.finish = FinishReason.CANCELLED

    def _first_token(self, sequence: list[int], request: Request) -> Iterator[GenerationEvent]:
        started = self.clock()
        request.prepare()
        stats = self.stats
        stats.cache_n = self._target.reuse(sequence)
        self._sampler.begin(sequence)
        yield self._prompt_progress(sequence, stats.cache_n, request)
        for done in self._read(sequence, request):
            stats.prompt_n = done - stats.cache_n
            stats.prompt_ns = self.clock() - started
            yield self._prompt_progress(sequence, done, request)
        if request.max_tokens == 0:
            self.finish = FinishReason.LENGTH
            return
        tokens, _ = self._choose(sequence, NO_DRAFT, request)
        inspection = self._inspect(tokens, NO_DRAFT, 0, request.n_top) if request.n_top is not None else None
        stats.first_token_ns = self.clock() - started
        yield Step(request.number, stats=stats.snapshot(), tokens=tokens, inspection=inspection)

    def _read(self, sequence: Sequence[int], request: Request) -> Iterator[int]:
        """Read the prompt, and report the times of the batches at its end; yield the tokens read."""
        target, probes = self._target, request.probes
        end = len(sequence) - sum(probes)
        if end <= len(target) or min(sequence[end:], default=0) < 0:
            probes, end = (), len(sequence)
        yield from target.read(sequence[:end], request.controls.cancelled)
        for size in probes:
            if request.controls.cancelled():
                raise Interrupted
            began = self.work_clock()
            target.evaluate(sequence[len(target) : len(target) + size], n_outputs=size)
            request.on_probe(size, self.work_clock() - began)
            yield len(target)

    def _begin_strategy(self, strategy: Strategy, sequence: list[int], request: Request) -> Iterator[GenerationEvent]:
        self.strategy, self._pending_strategy = strategy, None
        started = self.clock()
        max_tokens = self._target.n_ctx - len(sequence) + 1
        if request.max_tokens is not None:
            max_tokens = min(max_tokens, request.max_tokens - self.stats.predicted_n)
        try:
            start = AnswerStart(sequence, max_tokens, request.is_end, self.stats.predicted_ns)
            for done in strategy.begin(start, request.controls.cancelled):
                self.stats.draft_prompt_ns = self.clock() - started
                yield self._prompt_progress(sequence, done, request, drafting=True)
        except (Interrupted, AppError) as error:
            self.stats.draft_prompt_ns = self.clock() - started
            if isinstance(error, Interrupted):
                raise
            yield self._lose_model(error)

    def _steps(self, sequence: list[int], request: Request) -> Iterator[GenerationEvent]:
        stats, target, controls = self.stats, self._target, request.controls
        timer = StepTimer(self.clock, self.work_clock, self._native_ns)
        while self.finish is None:
            if controls.cancelled():
                raise Interrupted
            if len(sequence) > target.n_ctx:
                self.finish = FinishReason.CONTEXT
                return
            drafts = controls.drafts()
            if drafts and self._pending_strategy is not None:
                timer.pause()
                yield from self._begin_strategy(self._pending_strategy, sequence, request)
                # Only reading is counted separately; other preparation belongs to the answer, but to no step.
                timer.resume(stats.draft_prompt_ns)
            timer.begin_draft()
            draft, lost = self._propose(sequence, self._room(sequence, request) if drafts else 0, request)
            if lost is not None:
                yield lost
            timer.end_draft()
            n_past = len(sequence) - 1
            self._evaluate(sequence, draft, request)
            tokens, n_accepted = self._choose(sequence, draft, request)
            inspection = None
            if controls.inspected() or request.n_top is not None:
                timer.pause()
                inspection = self._inspect(tokens, draft, n_accepted, request.n_top or 0)
                timer.resume()
            target.rollback(n_past + 1 + n_accepted)
            timer.end_step()
            times = timer.work_ns, timer.draft_work_ns, timer.stretch
            self.strategy.observe(StepResult(n_past, draft, tokens, n_accepted, *times))
            stats.observe_step(draft.sources, n_accepted)
            timer.count(stats)
            status = self.strategy.status
            stats.observe_speedup(self.strategy.speedup)
            if status is not None and not drafts:
                status = status.switched_off
            yield Step(
                request.number,
                stats=stats.snapshot(),
                drafting=status,
                tokens=tokens,
                n_accepted=n_accepted,
                draft=draft,
                inspection=inspection,
                total_ns=timer.wall_ns,
                work_ns=timer.work_ns,
            )

    def _propose(self, sequence: list[int], room: int, request: Request) -> tuple[Draft, DraftLost | None]:
        """Return a draft that the grammar allows; None, and why, if the drafter failed."""
        try:
            draft = self.strategy.propose(sequence, room)
            return (draft if request.n_allowed is None else draft.first(request.n_allowed(draft.tokens))), None
        except AppError as error:
            return NO_DRAFT, self._lose_model(error)

    def _room(self, sequence: list[int], request: Request) -> int:
        """Return the longest draft that fits the context, the batch, the rollback and the rest of the answer."""
        target = self._target
        room = min(target.n_ctx - len(sequence), target.n_batch - 1, target.n_rollback)
        if request.max_tokens is not None:
            # One token of each step is the target's own.
            room = min(room, request.max_tokens - self.stats.predicted_n - 1)
        return room

    def _evaluate(self, sequence: list[int], draft: Draft, request: Request) -> None:
        started = self.clock()
        *missing, last = sequence[len(self._target) :]
        if missing:
            # The target could not be rolled back to the last token.
            for _ in self._target.process(missing, request.controls.cancelled):
                pass
        self._target.evaluate((last, *draft.tokens), n_outputs=1 + len(draft))
        self.stats.verify_ns += self.clock() - started

    def _choose(self, sequence: list[int], draft: Draft, request: Request) -> tuple[tuple[int, ...], int]:
        """Verify the draft and append the emitted tokens; return them and the number of accepted tokens."""
        tokens, n_accepted, self.finish = verify(draft, self._sampler.sample, self._observer(request))
        sequence.extend(tokens)
        return tokens, n_accepted

    def _inspect(self, tokens: Sequence[int], draft: Draft, n_accepted: int, n_top: int) -> Inspection:
        target, at = self._target, n_accepted
        mismatch = at < len(draft) and at < len(tokens)
        return Inspection(
            chosen=tuple(probability_of(target.logits(i), token) for i, token in enumerate(tokens)),
            declined=probability_of(target.logits(at), draft.tokens[at]) if mismatch else None,
            top=tuple(most_probable_tokens(target.logits(i), n_top) for i in range(len(tokens))) if n_top else (),
        )

    def _observer(self, request: Request) -> Observe:
        def observe(token: int, source: Source | None) -> FinishReason | None:
            self.stats.predicted_n += 1
            reason = request.observe(token, source)
            if reason is not None or request.is_end(token):
                return reason or FinishReason.STOP
            return FinishReason.LENGTH if self.stats.predicted_n == request.max_tokens else None

        return observe

    def _lose_model(self, error: AppError) -> DraftLost:
        self.strategy.lose_model()
        return DraftLost(error.message)

    def _native_ns(self) -> int:
        drafter_ns = self._drafter.native_ns if self._drafter is not None else 0
        return self._target.native_ns + self._sampler.native_ns + drafter_ns

    def _prompt_progress(
        self, sequence: Sequence[int], done: int, request: Request, *, drafting: bool = False
    ) -> PromptProgress:
        own = self._drafter.cache if drafting and self._drafter is not None else None
        left_s = (own if own is not None else self._target).seconds_to_read(len(sequence) - done)
        picture = None if drafting else picture_at(sequence, done)
        return PromptProgress(request.number, drafting, done, len(sequence), left_s, picture)
