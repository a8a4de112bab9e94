"""A loaded pair that records the tokens of an answer, and its caches before and after a comparison."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

from app.conversations.message import Message, Prefill
from app.engine.cache import TokenCache, common_prefix
from app.engine.interfaces import Cancelled
from app.engine.text.reasoning import RenderedPrompt
from app.engine.types import SamplingParams
from app.settings.thinking import AS_TRAINED, Thinking
from app.worker.events import PromptProgress
from app.worker.request import LoadedPair, SeededSampler, prompt_progress


class _RecordingSampler:
    def __init__(self, sampler: SeededSampler, tokens: list[int]) -> None:
        self._sampler = sampler
        self._tokens = tokens

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sampler, name)

    def sample(self, row: int) -> int:
        token = self._sampler.sample(row)
        self._tokens.append(token)
        return token


class Recorder:
    """Record the token ids of one answer, which the responder's events do not carry.

    Args:
        pair: The pair; everything else is delegated to it.
        prefix: Tokens that both models have read when the answer begins, also after a calibration.

    Attributes:
        prompt: Token ids of the prompt.
        tokens: Token ids sampled so far.
        threads: CPU thread counts that the answer used.
    """

    def __init__(self, pair: LoadedPair, prefix: Sequence[int] = ()) -> None:
        self._pair = pair
        self._prefix = prefix
        self.prompt: tuple[int, ...] = ()
        self.tokens: list[int] = []
        self.threads: set[int] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pair, name)

    @property
    def as_pair(self) -> LoadedPair:
        # Type checkers do not see what __getattr__ delegates.
        return cast("LoadedPair", self)

    def calibrate(self, cancelled: Cancelled) -> Iterator[float]:
        yield from self._pair.calibrate(cancelled)
        for _ in read_prefix(self._pair, self._prefix, cancelled):
            pass

    def prepare_caches(self, prompt: Sequence[int], conversation: str) -> None:
        """Leave the caches as they are: every side begins with the same."""

    def yield_cpu(self) -> None:
        self._pair.yield_cpu()
        self.threads.add(self._pair.threads_in_use)

    def build_prompt(
        self, messages: Sequence[Message], prefill: Prefill | None = None, thinking: Thinking = AS_TRAINED
    ) -> RenderedPrompt:
        prompt = self._pair.build_prompt(messages, prefill, thinking)
        self.prompt = tuple(prompt.tokens)
        return prompt

    def new_sampler(self, params: SamplingParams) -> SeededSampler:
        return cast("SeededSampler", _RecordingSampler(self._pair.new_sampler(params), self.tokens))


def conversation_prefix(
    pair: LoadedPair, messages: Sequence[Message], thinking: Thinking = AS_TRAINED
) -> tuple[int, ...]:
    """Return the tokens of a conversation before its last message; () if it does not fit the context.

    The chat template decides what stands between two messages, so two prompts with different last messages are built:
    what they share is the prefix.
    """
    *before, last = messages
    other = replace(last, content="b" if last.content.startswith("a") else "a")
    tokens = pair.build_prompt(messages, None, thinking).tokens
    if len(tokens) > pair.target.n_ctx:
        return ()
    shared = common_prefix(tokens, pair.build_prompt((*before, other), None, thinking).tokens)
    return tuple(tokens[: min(shared, len(tokens) - 1)])


@contextmanager
def preserved_caches(pair: LoadedPair) -> Iterator[None]:
    """Save the KV caches of both models and restore them at the end; one that is too large is not restored."""
    saved = [(cache, copy) for cache in _caches(pair) if (copy := cache.save()) is not None]
    try:
        yield
    finally:
        for cache, copy in saved:
            if not cache.is_broken:
                cache.restore(copy)


def read_prefix(
    pair: LoadedPair, prefix: Sequence[int], cancelled: Cancelled, number: int = 0
) -> Iterator[PromptProgress]:
    """Make both caches hold exactly these tokens. Raises Interrupted.

    Args:
        pair: The two models.
        prefix: Token ids; () empties the caches.
        cancelled: Read between chunks.
        number: Request number of the events.
    """
    for index, cache in enumerate(_caches(pair)):
        for done in hold(cache, prefix, cancelled):
            pair.yield_cpu()
            yield prompt_progress(pair, number, done, len(prefix), drafting=index > 0)


def hold(cache: TokenCache, prefix: Sequence[int], cancelled: Cancelled) -> Iterator[int]:
    """Make one cache hold exactly these tokens; yields how many new ones are done."""
    n_cached = cache.rollback(common_prefix(cache.tokens, prefix))
    yield from cache.process(prefix[n_cached:], cancelled)


def _caches(pair: LoadedPair) -> list[TokenCache]:
    return [pair.target] + ([pair.drafter.cache] if pair.drafter is not None else [])
