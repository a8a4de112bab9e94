"""Where a run begins: with empty caches, or with a conversation that both models have read already."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from app.conversations.message import Message
from app.engine.cache import TokenCache, common_prefix
from app.engine.interfaces import Cancelled
from app.settings.thinking import AS_TRAINED, Thinking
from app.worker.events import PromptProgress
from app.worker.request import LoadedPair, prompt_progress


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
