"""Run the generator on scripted models, and strategies on a constant draft model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from app.engine.cache import TokenCache
from app.engine.draft_model import ModelDrafter
from app.engine.draft_source import judged_draft
from app.engine.events import GenerationEvent, Step
from app.engine.fixed import FixedDrafting, NoDrafting
from app.engine.generator import Generator, Request
from app.engine.interfaces import AnswerStart, Controls, Judge, Strategy
from app.engine.sources import Source
from app.engine.types import Draft, DraftParams, FinishReason
from tests.fakes import END, FakeModel, FakeSampler, Rule
from tests.recordings import Trace
from tests.replay import RecordedDraft

_S = TypeVar("_S", bound=Strategy)
PROMPT = [5, 6, 7, 8]
EVERYTHING = DraftParams(n_max=4, n_min=0, p_min=0.0)


@dataclass
class Bench:
    """A target and a draft model that generate one answer after the other."""

    target: FakeModel
    draft: FakeModel | None = None
    params: DraftParams = EVERYTHING
    seed: int | None = None
    events: list[GenerationEvent] = field(default_factory=list)
    emitted: list[tuple[int, Source | None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.cache = TokenCache(self.target)
        self.draft_cache = TokenCache(self.draft) if self.draft else None
        n_vocab = min(m.n_vocab for m in (self.target, self.draft) if m)
        self.drafter = None if self.draft_cache is None else ModelDrafter(self.draft_cache, n_vocab, lambda t: t == END)

    def generator(self) -> Generator:
        self.sampler = FakeSampler(self.target, self.seed)
        clock = iter(range(0, 10**9, 1000))
        strategy: Strategy = FixedDrafting(self.drafter, self.params) if self.drafter else NoDrafting()
        return Generator(self.cache, strategy, self.sampler, lambda: next(clock), drafter=self.drafter)

    def run(
        self,
        prompt: Sequence[int] = PROMPT,
        max_tokens: int | None = 20,
        ends: Callable[[int, Source | None], FinishReason | None] = lambda token, origin: None,
        cancelled: Callable[[], bool] = lambda: False,
        **more: Any,
    ) -> list[int]:
        """Run an answer; `more` are fields of its `Request`."""
        self.last = self.generator()
        self.events, self.emitted = [], []

        def observe(token: int, origin: Source | None) -> FinishReason | None:
            self.emitted.append((token, origin))
            return ends(token, origin)

        request = Request(prompt, lambda t: t == END, max_tokens, observe, Controls(cancelled), **more)
        self.events.extend(self.last.run(request))
        return [token for token, _ in self.emitted]

    @property
    def steps(self) -> list[Step]:
        return [event for event in self.events if isinstance(event, Step)]


def undrafted(rule: Rule, prompt: Sequence[int] = PROMPT, max_tokens: int = 20) -> list[int]:
    """Return an answer without drafts."""
    return Bench(FakeModel(rule)).run(prompt, max_tokens)


def begun(strategy: _S, sequence: Sequence[int]) -> _S:
    """Let a strategy prepare for an answer; return it."""
    list(strategy.begin(AnswerStart([*sequence], 256, lambda token: token == END), lambda: False))
    return strategy


class ConstantDraft(RecordedDraft):
    """A draft model that proposes the same tokens in every step, with the same confidence."""

    def __init__(self, tokens: Sequence[int] = range(1000, 1064), confidence: float = 0.99, unread: int = 0) -> None:
        super().__init__(Trace("none", "none", (), (), (), ()), 0.0, lambda cost: None)
        self._tokens = tokens
        self._confidence = confidence
        self._unread = unread
        self.n_drafts = 0

    def unread(self, tokens: Sequence[int]) -> int:
        return self._unread

    def draft(self, tokens: Sequence[int], limit: int, judge: Judge) -> Draft:
        self.n_drafts += 1
        proposals = ((token, self._confidence) for token in self._tokens)
        return judged_draft(self.kind, proposals, limit, judge, lambda token: token == END)
