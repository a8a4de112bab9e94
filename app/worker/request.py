"""Requests for answers and the interface of a loaded pair."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from app.conversations.message import Message, Prefill
from app.engine.interfaces import Cancelled, Clock, Sampler
from app.engine.ngram import NgramIndex
from app.engine.text.reasoning import RenderedPrompt
from app.engine.types import Drafting, Guidance, SamplingParams
from app.models.pair_info import PairInfo
from app.settings.thinking import AS_TRAINED, Thinking
from app.worker.events import PromptProgress

if TYPE_CHECKING:
    from app.engine.auto.pair_statistics import PairStatistics
    from app.engine.cache import TokenCache
    from app.engine.draft_model import ModelDrafter


@dataclass(frozen=True, slots=True)
class AnswerRequest:
    """One answer to give.

    Attributes:
        messages: The conversation, ending with the user.
        drafting: Automatic, fixed parameters, or None for no draft.
        max_tokens: Most tokens to generate; None for as many as fit.
        prefill: An answer to continue; None for a new one.
        beside: Earlier answers to the same prompt, newest first, for n-gram drafting.
        with_details: Whether every step carries `StepDetails`, which takes time.
        stop_on_repeat: Whether a loop ends the answer; see `app.engine.repetition`.
        conversation: Names the state of the caches; "" for none, None leaves them as they are.
        n_room: Tokens of the context that the answer needs, if earlier messages can make room for it.
        tools: Tools that the model may call, as in OpenAI's API.
        must_call: Whether the answer must be a call of a tool.
        guidance: Grammar and logit bias.
        n_top: Most probable tokens that every step reports; None reports no probabilities.
        text: The prompt without a chat template, instead of messages; None for messages.
    """

    messages: tuple[Message, ...]
    sampling: SamplingParams = field(default_factory=SamplingParams)
    drafting: Drafting = None
    max_tokens: int | None = None
    stops: tuple[str, ...] = ()
    prefill: Prefill | None = None
    beside: tuple[str, ...] = ()
    thinking: Thinking = AS_TRAINED
    with_details: bool = False
    stop_on_repeat: bool = False
    conversation: str | None = ""
    n_room: int = 0
    tools: tuple[Mapping[str, Any], ...] = ()
    must_call: bool = False
    guidance: Guidance = field(default_factory=Guidance)
    n_top: int | None = None
    text: str | None = None


class SeededSampler(Sampler, Protocol):
    """A sampler that owns native state and knows its seed."""

    seed: int

    def n_allowed(self, tokens: Sequence[int]) -> int:
        """Return how many leading tokens of a draft the grammar allows."""

    def close(self) -> None: ...


class LoadedPair(Protocol):
    """A target, perhaps with a draft model, ready to answer; `app.llama.pair` provides it.

    Attributes:
        info: The pair as values.
        notices: Notices for the user from loading.
        idle_s: Seconds without a command after which the pair is freed; None for never.
        target: The target's cache.
        drafter: The draft model; None without a usable one.
        index: Index of the conversation for n-gram drafting; the next turn adds only new tokens.
        memory: Learned statistics of the pair; None before the first calibration.
    """

    info: PairInfo
    notices: list[str]
    idle_s: float | None
    target: TokenCache
    drafter: ModelDrafter | None
    index: NgramIndex
    memory: PairStatistics | None

    def calibrate(self, cancelled: Cancelled) -> Iterator[float]:
        """Measure step costs for `memory`. Yields the share done."""

    def remember(self) -> None:
        """Save `memory`."""

    def drop_draft(self) -> None:
        """Free the draft model, which failed; a notice says so.

        Raises:
            ModelLoadError: The target must be loaded again.
        """

    def prepare_caches(self, prompt: Sequence[int], conversation: str) -> None:
        """Restore the caches that share most of a prompt; see `app.engine.prompt_cache`."""

    def yield_cpu(self) -> None:
        """Use fewer threads while other programs need the CPU; called before an answer and in every step."""

    def work_clock(self, wall: Clock, cpu: Clock) -> Clock:
        """Return a clock for the time that steps would take without other programs.

        Args:
            wall: Nanoseconds of wall time.
            cpu: Nanoseconds of CPU time of this process.
        """

    @property
    def threads_in_use(self) -> int:
        """Current CPU threads for single tokens; 0 if the CPU computes no layers."""

    def build_prompt(
        self,
        messages: Sequence[Message],
        prefill: Prefill | None = None,
        thinking: Thinking = AS_TRAINED,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> RenderedPrompt:
        """Return the prompt for the next answer, or for the rest of one."""

    def build_text(self, text: str) -> RenderedPrompt:
        """Return a text as a prompt without a chat template."""

    def call_grammar(self, tools: Sequence[Mapping[str, Any]]) -> str:
        """Return a grammar of one call of a tool, as the model writes it; "" if there is none."""

    def new_sampler(self, params: SamplingParams, guidance: Guidance | None = None) -> SeededSampler: ...

    def tokenize(self, text: str) -> Sequence[int]:
        """Return the tokens of a text; control tokens in it are ordinary characters."""

    def piece(self, token: int) -> bytes:
        """Return the bytes of a token; empty for control tokens."""

    def is_end(self, token: int) -> bool: ...

    def close(self) -> None: ...


def prompt_of(pair: LoadedPair, request: AnswerRequest) -> RenderedPrompt:
    """Return the prompt of a request."""
    if request.text is not None:
        return pair.build_text(request.text)
    return pair.build_prompt(request.messages, request.prefill, request.thinking, request.tools)


def prompt_progress(pair: LoadedPair, request: int, done: int, total: int, *, drafting: bool) -> PromptProgress:
    """Return the progress event of a model that reads a prompt, with the estimated time left."""
    cache = pair.drafter.cache if drafting and pair.drafter is not None else pair.target
    return PromptProgress(request, drafting, done, total, cache.seconds_to_read(total - done))


def with_seed(sampling: SamplingParams, seed: int | None = None) -> SamplingParams:
    """Return the sampling with a seed.

    Args:
        sampling: Keeps the seed that it has.
        seed: Taken if it has none; None draws one.
    """
    if sampling.is_greedy or sampling.seed is not None:
        return sampling
    return replace(sampling, seed=seed if seed is not None else secrets.randbelow(1 << 31))
