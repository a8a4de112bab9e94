"""Models that keep a running state: whatever happens, what they hold is what they are thought to hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from app.engine.cache import TokenCache
from app.errors import DecodeError, Interrupted
from app.llama.cancel import CancelFlag
from app.llama.context import Context
from app.llama.library import native
from app.llama.model import Model
from tests.native.conftest import NewContext

pytestmark = pytest.mark.native
PROMPT = [2 + 37 * i % 250 for i in range(200)]
HALF = 100
"""More than a draft, so that both halves are read as prompts."""


def assert_as_if_read_anew(cache: TokenCache, fresh: Context) -> None:
    """What follows the prompt is what follows it in a context that never saw anything else."""
    for _ in cache.process(PROMPT[cache.reuse(PROMPT) :], cancelled=lambda: False):
        pass
    fresh.decode(PROMPT, 1)
    np.testing.assert_allclose(cache.logits(0), fresh.logits(0), atol=1e-3)


def assert_nothing_is_left(cache: TokenCache, context: Context) -> None:
    assert len(cache) == context.n_past == 0
    assert native.llama_memory_seq_pos_max(context._memory, 0) == -1


def test_a_prompt_that_is_stopped_in_a_batch_leaves_nothing(hybrid: Model, new_context: NewContext) -> None:
    flag = CancelFlag()
    context = new_context(of=hybrid, cancel=flag)
    cache = TokenCache(context)
    cache.evaluate(PROMPT[:HALF], 0)
    flag.set()
    with pytest.raises(Interrupted):
        cache.evaluate([*range(2, 2 + HALF)], 0)
    assert_nothing_is_left(cache, context)
    flag.clear()
    assert_as_if_read_anew(cache, new_context(of=hybrid))


@pytest.mark.parametrize("code", [-2, -3, KeyboardInterrupt()])
def test_a_batch_that_fails_leaves_nothing(
    hybrid: Model, new_context: NewContext, monkeypatch: pytest.MonkeyPatch, code: int | KeyboardInterrupt
) -> None:
    decode = native.llama_decode

    def fails(*arguments: Any) -> int:
        decode(*arguments)
        if isinstance(code, KeyboardInterrupt):
            raise code
        return code

    context = new_context(of=hybrid)
    cache = TokenCache(context)
    cache.evaluate(PROMPT[:HALF], 0)
    monkeypatch.setattr(native, "llama_decode", fails)
    with pytest.raises((DecodeError, KeyboardInterrupt)):
        cache.evaluate([3, 4, 5], 1)
    monkeypatch.undo()
    assert_nothing_is_left(cache, context)
    assert_as_if_read_anew(cache, new_context(of=hybrid))


def test_a_stop_while_it_answers_costs_nothing_of_what_was_read(hybrid: Model, new_context: NewContext) -> None:
    flag = CancelFlag()
    context = new_context(of=hybrid, cancel=flag)
    cache = TokenCache(context)
    cache.evaluate(PROMPT[:-2], 0)
    flag.set()
    cache.evaluate(PROMPT[-2:-1], 1)
    assert len(cache) == context.n_past == len(PROMPT) - 1
    assert_as_if_read_anew(cache, new_context(of=hybrid))


def test_a_full_context_forgets_nothing(hybrid: Model, new_context: NewContext) -> None:
    context = new_context(of=hybrid)
    cache = TokenCache(context)
    cache.evaluate(PROMPT[:-1], 0)
    with pytest.raises(DecodeError, match="full"):
        cache.evaluate(PROMPT, 0)
    assert len(cache) == context.n_past == len(PROMPT) - 1
    assert_as_if_read_anew(cache, new_context(of=hybrid))
