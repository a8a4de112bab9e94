"""Listening to the token ids of an answer, which the responder's events, being for people, do not carry."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from app.conversations.message import Begun, Message
from app.engine.auto.pair_statistics import PairStatistics
from app.engine.cache import TokenCache, common_prefix
from app.engine.drafters import ModelDrafter, NgramIndex
from app.engine.interfaces import Cancelled, Clock
from app.engine.types import SamplingParams
from app.models.pair_info import PairInfo
from app.settings.thinking import AS_TRAINED, Thinking
from app.worker.events import PromptProgress
from app.worker.request import BuiltPrompt, LoadedPair, SeededSampler, prompt_progress


class _Listener:
    """A sampler that writes down what it chose: every choice is an emitted token, so these are the answer."""

    def __init__(self, sampler: SeededSampler, tokens: list[int]) -> None:
        self._sampler = sampler
        self._tokens = tokens

    @property
    def seed(self) -> int:
        return self._sampler.seed

    @property
    def native_ns(self) -> int:
        return self._sampler.native_ns

    def begin(self, prompt: Sequence[int]) -> None:
        self._sampler.begin(prompt)

    def sample(self, row: int) -> int:
        token = self._sampler.sample(row)
        self._tokens.append(token)
        return token

    def close(self) -> None:
        self._sampler.close()


class Tap:
    """A loaded pair as it is, but for a note of the tokens of the answer; implements `app.worker.request.LoadedPair`.

    Args:
        pair: The pair.
        prefix: What both models have read when the answer begins, also after a measurement has emptied the caches.

    Attributes:
        prompt: Token ids of the last prompt.
        tokens: Token ids chosen so far.
        threads: CPU thread counts that the answer used.
    """

    def __init__(self, pair: LoadedPair, prefix: Sequence[int] = ()) -> None:
        self._pair = pair
        self._prefix = prefix
        self.prompt: tuple[int, ...] = ()
        self.tokens: list[int] = []
        self.threads: set[int] = set()

    @property
    def info(self) -> PairInfo:
        return self._pair.info

    @property
    def notices(self) -> Sequence[str]:
        return self._pair.notices

    @property
    def target(self) -> TokenCache:
        return self._pair.target

    @property
    def drafter(self) -> ModelDrafter | None:
        return self._pair.drafter

    @property
    def index(self) -> NgramIndex:
        return self._pair.index

    @property
    def memory(self) -> PairStatistics | None:
        return self._pair.memory

    def calibrate(self, cancelled: Cancelled) -> Iterator[float]:
        yield from self._pair.calibrate(cancelled)
        for _ in begin_from(self._pair, self._prefix, cancelled):
            pass

    def remember(self) -> None:
        self._pair.remember()

    def drop_draft(self) -> None:
        self._pair.drop_draft()

    def yield_cpu(self) -> None:
        """Adapt the thread count as in a chat, and record it for the report."""
        self._pair.yield_cpu()
        self.threads.add(self._pair.threads_in_use)

    @property
    def threads_in_use(self) -> int:
        return self._pair.threads_in_use

    def work_clock(self, wall: Clock, cpu: Clock) -> Clock:
        return self._pair.work_clock(wall, cpu)

    def build_prompt(
        self, messages: Sequence[Message], begun: Begun | None = None, thinking: Thinking = AS_TRAINED
    ) -> BuiltPrompt:
        prompt = self._pair.build_prompt(messages, begun, thinking)
        self.prompt = tuple(prompt.tokens)
        return prompt

    def new_sampler(self, params: SamplingParams) -> SeededSampler:
        return _Listener(self._pair.new_sampler(params), self.tokens)

    def tokenize(self, text: str) -> Sequence[int]:
        return self._pair.tokenize(text)

    def piece(self, token: int) -> bytes:
        return self._pair.piece(token)

    def is_end(self, token: int) -> bool:
        return self._pair.is_end(token)

    def close(self) -> None:
        self._pair.close()


def conversation_prefix(
    pair: LoadedPair, messages: Sequence[Message], thinking: Thinking = AS_TRAINED
) -> tuple[int, ...]:
    """The tokens of a conversation that come before its last message.

    A template decides what stands between two messages, so they are found as what the prompt shares with the prompt
    that ends with another message. Empty for a prompt that does not fit the context: its answer says so itself.
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
    """Save the KV caches of both models and restore them at the end, so that the next prompt reuses them.

    A cache that is too large to save is not restored.
    """
    caches = [pair.target] + ([pair.drafter.cache] if pair.drafter is not None else [])
    saved = [(cache, copy) for cache in caches if (copy := cache.save()) is not None]
    try:
        yield
    finally:
        for cache, copy in saved:
            if not cache.is_spent:
                cache.restore(copy)


def begin_from(
    pair: LoadedPair, prefix: Sequence[int], cancelled: Cancelled, number: int = 0
) -> Iterator[PromptProgress]:
    """Let both models have read these tokens and nothing else; what they have read of them already stays.

    Args:
        pair: The two models.
        prefix: What is read; nothing empties the caches.
        cancelled: Read between chunks.
        number: The request that the events carry.

    Raises:
        Interrupted: Cancelled.
    """
    caches = [(False, pair.target)] + ([(True, pair.drafter.cache)] if pair.drafter is not None else [])
    for drafting, cache in caches:
        for done in hold(cache, prefix, cancelled):
            pair.yield_cpu()
            yield prompt_progress(pair, number, done, len(prefix), drafting=drafting)


def hold(cache: TokenCache, prefix: Sequence[int], cancelled: Cancelled) -> Iterator[int]:
    """Let one cache hold these tokens and nothing else. Yields how many of them are done after each chunk."""
    held = cache.rollback(common_prefix(cache.tokens, prefix))
    yield from cache.process(prefix[held:], cancelled)
