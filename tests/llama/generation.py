"""Run the engine on real contexts."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from app.engine.cache import TokenCache
from app.engine.draft_model import ModelDrafter
from app.engine.events import Step
from app.engine.fixed import FixedDrafting, NoDrafting
from app.engine.generator import Generator, Request
from app.engine.interfaces import Logits
from app.engine.types import DraftParams, FinishReason, SamplingParams
from app.llama.context import Context
from app.llama.model import Model
from app.llama.sampler import SamplerChain

GREEDY = SamplingParams(temperature=0)
NEAR_TIE = 0.2
"""Logits of one token evaluated alone and in a batch differ by less than this on any backend."""


@dataclass
class Run:
    """Tokens, steps and end of an answer."""

    tokens: list[int] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    finish: FinishReason | None = None
    samples: int = 0


class Machine:
    """A target and perhaps a draft, with their caches."""

    def __init__(self, target: Context, draft: Context | None = None) -> None:
        self.context = target
        self.target = TokenCache(target)
        self.model: Model = target.model
        self.draft = TokenCache(draft) if draft is not None else None
        self.drafter = (
            ModelDrafter(self.draft, self.model.n_vocab, self.model.is_end) if self.draft is not None else None
        )

    def answer(
        self,
        prompt: Sequence[int],
        max_tokens: int | None = 24,
        *,
        drafting: DraftParams | None = None,
        sampling: SamplingParams = GREEDY,
        is_end: Callable[[int], bool] | None = None,
    ) -> Run:
        run = Run()
        chain = _Counting(SamplerChain(self.context, sampling))
        plain = self.drafter is None or drafting is None
        strategy = NoDrafting() if plain else FixedDrafting(self.drafter, drafting)  # type: ignore[arg-type]
        generator = Generator(self.target, strategy, chain)
        request = Request(prompt, is_end or self.model.is_end, max_tokens, lambda *_: None)
        for event in generator.run(request):
            if isinstance(event, Step):
                run.tokens += event.tokens
                run.steps.append(event)
        chain.close()
        run.finish = generator.finish
        run.samples = chain.samples
        return run


class _Counting:
    def __init__(self, chain: SamplerChain) -> None:
        self._chain = chain
        self.samples = 0
        self.begin = chain.begin
        self.close = chain.close

    @property
    def native_ns(self) -> int:
        return self._chain.native_ns

    def sample(self, row: int) -> int:
        self.samples += 1
        return self._chain.sample(row)


def rows_alone(context: Context, tokens: Sequence[int], first: int) -> Iterator[Logits]:
    """The logits after each token from `first` on, every one evaluated by itself in a fresh cache."""
    context.clear()
    if first:
        context.decode(tokens[:first], 0)
    for token in tokens[first:]:
        context.decode((token,), 1)
        yield context.logits(0)
