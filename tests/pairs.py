"""A loaded pair of scripted models, whose tokens are letters."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from app.conversations.message import Message, Prefill
from app.engine.auto.cost_profile import CostProfile
from app.engine.auto.curve import CostModel
from app.engine.auto.pair_statistics import PairStatistics
from app.engine.cache import TokenCache
from app.engine.draft_model import ModelDrafter
from app.engine.draft_source import DraftSource
from app.engine.interfaces import Cancelled, Clock
from app.engine.ngram import NgramIndex
from app.engine.prompt_cache import PromptCache
from app.engine.text.reasoning import RenderedPrompt
from app.engine.types import Guidance, Infill, PlainPrompt, SamplingParams
from app.models.pair_info import ModelInfo, PairInfo
from app.settings.layers import AS_TRAINED, Thinking
from tests.fakes import END, N_VOCAB, FakeModel, FakeSampler

if TYPE_CHECKING:
    from app.llama.cpu_threads import CpuThreads as _Threads
    from app.llama.pair import NativePair as _Base
else:
    _Base = _Threads = object


class Letters:
    """A vocabulary: token 1 is "a", 2 is "b", and so on; 0 ends an answer."""

    def tokenize(self, text: str) -> tuple[int, ...]:
        return tuple(1 + (ord(c) - 97) % (N_VOCAB - 1) for c in text)

    def piece(self, token: int) -> bytes:
        return b"" if token == END else bytes([96 + token]) if token <= 26 else b"."

    def detokenize(self, tokens: Sequence[int]) -> str:
        return b"".join(map(self.piece, tokens)).decode()

    def is_end(self, token: int) -> bool:
        return token == END


class LetterPrompts:
    """Renders a conversation as its bare text."""

    def build(
        self,
        messages: Sequence[Message],
        prefill: Prefill | None = None,
        thinking: Thinking = AS_TRAINED,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> RenderedPrompt:
        text = "".join(m.content for m in messages) + (prefill.text if prefill is not None else "")
        return RenderedPrompt(Letters().tokenize(text))


class FakeThreads(_Threads):
    """Threads that count how often they yielded."""

    def __init__(self) -> None:
        self.n_yields, self.n_threads = 0, 1

    def yield_cpu(self) -> None:
        self.n_yields += 1

    def work_clock(self, wall: Clock, cpu: Clock) -> Clock:
        return wall

    @property
    def in_use(self) -> int:
        return self.n_threads


class FakePair(_Base):
    """Stands in for a `NativePair` without a native library."""

    model: Letters  # type: ignore[assignment]
    prompts: LetterPrompts  # type: ignore[assignment]
    drafter: ModelDrafter | None

    def __init__(
        self,
        target: FakeModel,
        draft: FakeModel | None = None,
        notices: Sequence[str] = (),
        *,
        can_draft: bool = True,
        most_drafted: int | None = None,
    ) -> None:
        self.notices = list(notices)
        self.target = TokenCache(target)
        self._model = target
        self.model, self.prompts = Letters(), LetterPrompts()
        self.drafter = None
        self.free_sources: Sequence[DraftSource] = (NgramIndex(),)
        if draft is not None:
            self.drafter = ModelDrafter(TokenCache(draft), N_VOCAB, self.model.is_end)
        most = most_drafted if can_draft else 0
        info = ModelInfo("Fake", "fake.gguf", "F32", 1000, N_VOCAB)
        self.info = PairInfo(info, info if draft is not None else None, target.n_ctx, "CPU", most_drafted=most)
        self.samplers: list[FakeSampler] = []
        self.guidance: Guidance | None = None
        self.caches = self.prompt_cache()
        self.closed = False
        self.idle_s: float | None = None
        self.memory: PairStatistics | None = None
        self.remembered = 0
        self.threads: FakeThreads = FakeThreads()

    def measure_costs(
        self, cancelled: Cancelled, *, budget_ns: int | None = None, passes: int = 1
    ) -> Generator[float, None, None]:
        yield 0.5
        self.memory = PairStatistics(CostModel(CostProfile({1: 1000.0, 64: 2000.0}, draft_ns=10.0)))

    def remember(self) -> None:
        self.remembered += 1

    def drop_draft(self) -> None:
        self.drafter, self.info = None, replace(self.info, draft=None)
        self.notices.append("It is left out.")

    def prompt_cache(self, budget_bytes: int = 0) -> PromptCache:
        return PromptCache(self.target, lambda: self.drafter.cache if self.drafter else None, budget_bytes)

    def build_plain(self, prompt: PlainPrompt) -> RenderedPrompt:
        parts = (prompt.prefix, prompt.suffix) if isinstance(prompt, Infill) else prompt.parts
        return RenderedPrompt(tuple(t for p in parts for t in ((p,) if isinstance(p, int) else self.tokenize(p))))

    def tokenize(self, text: str, *, parse_special: bool = False, add_special: bool = False) -> tuple[int, ...]:
        return self.model.tokenize(text)

    def new_sampler(  # type: ignore[override]
        self, params: SamplingParams, guidance: Guidance | None = None, tools: Sequence[Mapping[str, Any]] = ()
    ) -> FakeSampler:
        sampler = FakeSampler(self._model, params.seed)
        self.guidance = guidance
        self.samplers.append(sampler)
        return sampler

    def token_text(self, token: int) -> bytes:
        return self.model.piece(token)

    def close(self) -> None:
        self.closed = True
