"""Check the cache of models with recurrent state after stops, failures and rejected drafts."""

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.core.errors import DecodeError, Interrupted
from app.engine.cache import TokenCache
from app.engine.fixed import FixedDrafting, NoDrafting
from app.engine.types import AutoDraft, DraftParams
from app.llama.cancel import CancelFlag
from app.llama.context import Context
from app.llama.library import native
from app.llama.model import Model
from app.models.gguf import GgufHeader
from app.models.memory_estimate import N_SNAPSHOTS, estimate_memory, n_saved_states
from app.models.model_facts import ModelFacts, is_recurrent, keeps_snapshots, model_facts
from app.settings.model_params import ContextParams
from tests.llama.conftest import NewContext, OpenPair
from tests.llama.generation import answer

pytestmark = pytest.mark.native
_NAME, _IS_HYBRID, _IS_RECURRENT, _KEEPS_SNAPSHOTS = (
    "_Z13llm_arch_name8llm_arch",
    "_Z18llm_arch_is_hybridRK8llm_arch",
    "_Z21llm_arch_is_recurrentRK8llm_arch",
    "_Z29llm_arch_supports_rs_rollbackRK8llm_arch",
)
_MORE_THAN_THERE_ARE = 1000
PROMPT = [2 + 37 * i % 250 for i in range(200)]
HALF_LENGTH = 100
"""More than a draft, so that both halves are read as prompts."""


def assert_equals_fresh_context(cache: TokenCache, fresh: Context) -> None:
    """Check that the tokens after a prompt equal those of a fresh context."""
    list(cache.process(PROMPT[cache.reuse(PROMPT) :], cancelled=lambda: False))
    fresh.decode(PROMPT, 1)
    np.testing.assert_allclose(cache.logits(0), fresh.logits(0), atol=0.02)


def assert_is_empty(cache: TokenCache, context: Context) -> None:
    assert len(cache) == context.n_past == 0
    assert native.llama_memory_seq_pos_max(context._memory, 0) == -1


def test_a_prompt_cancelled_in_a_batch_leaves_an_empty_cache(hybrid: Model, new_context: NewContext) -> None:
    flag = CancelFlag()
    context = new_context(of=hybrid, cancel=flag)
    cache = TokenCache(context)
    cache.evaluate(PROMPT[:HALF_LENGTH], 0)
    flag.set()
    with pytest.raises(Interrupted):
        cache.evaluate([*range(2, 2 + HALF_LENGTH)], 0)
    assert_is_empty(cache, context)
    flag.clear()
    assert_equals_fresh_context(cache, new_context(of=hybrid))


@pytest.mark.parametrize("code", [-2, -3, KeyboardInterrupt()])
def test_a_failed_batch_leaves_an_empty_cache(
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
    cache.evaluate(PROMPT[:HALF_LENGTH], 0)
    monkeypatch.setattr(native, "llama_decode", fails)
    with pytest.raises((DecodeError, KeyboardInterrupt)):
        cache.evaluate([3, 4, 5], 1)
    monkeypatch.undo()
    assert_is_empty(cache, context)
    assert_equals_fresh_context(cache, new_context(of=hybrid))


# Saved states


def test_tokens_before_a_kept_state_are_not_read_again(hybrid: Model, new_context: NewContext) -> None:
    context = new_context(of=hybrid)
    cache = TokenCache(context)
    list(cache.read([*PROMPT[:150], *range(40, 50)], cancelled=lambda: False))
    for token in range(60, 70):
        cache.evaluate((token,), 1)

    assert cache.reuse(PROMPT) == context.n_past == 144
    assert native.llama_memory_seq_pos_max(context._memory, 0) == 143
    assert_equals_fresh_context(cache, new_context(of=hybrid))


def test_a_restored_sequence_has_its_earlier_states_back(hybrid: Model, new_context: NewContext) -> None:
    context = new_context(of=hybrid)
    cache = TokenCache(context)
    list(cache.process(PROMPT[:HALF_LENGTH], lambda: False))
    context.keep_state()
    list(cache.process(PROMPT[HALF_LENGTH:], lambda: False))
    saved = cache.save()
    assert saved is not None
    cache.rollback(0)
    list(cache.process(PROMPT[::-1], lambda: False))

    cache.restore(saved)

    assert_equals_fresh_context(cache, new_context(of=hybrid))
    assert cache.rollback(len(PROMPT) - 1) == HALF_LENGTH
    assert_equals_fresh_context(cache, new_context(of=hybrid))


@pytest.mark.parametrize("drafts", [False, True])
def test_a_stop_in_a_long_prompt_falls_back_to_the_kept_state(
    hybrid: Model, new_context: NewContext, drafts: bool
) -> None:
    flag = CancelFlag()
    context = new_context(of=hybrid, cancel=flag, n_snapshots=N_SNAPSHOTS if drafts else 0)
    cache = TokenCache(context)
    for n_past in (30, 60, 160):
        cache.evaluate(PROMPT[len(cache) : n_past], 0)
        if n_past < 160:
            context.keep_state()
    flag.set()
    with pytest.raises(Interrupted):
        cache.evaluate([*range(2, 2 + 90)], 0)
    flag.clear()

    assert len(cache) == context.n_past == 60
    assert native.llama_memory_seq_pos_max(context._memory, 0) == 59
    assert_equals_fresh_context(cache, new_context(of=hybrid))


def test_a_kept_state_has_the_estimated_size(hybrid: Model, new_context: NewContext) -> None:
    context = new_context(of=hybrid, n_snapshots=N_SNAPSHOTS)
    context.decode(PROMPT[:50], 0)
    context.keep_state()

    state_bytes = facts_of(hybrid).state_bytes
    (data,) = context._states.kept.values()
    # llama.cpp stores the types beside the values.
    assert state_bytes <= len(data) <= state_bytes + 100
    for n_past in range(51, 51 + 2 * n_saved_states(state_bytes)):
        context.decode(PROMPT[n_past - 1 : n_past], 0)
        context.keep_state()
    assert len(context._states.kept) == n_saved_states(state_bytes)
    assert (
        estimate_memory(facts_of(hybrid), ContextParams(256, n_snapshots=N_SNAPSHOTS)).saved
        == n_saved_states(state_bytes) * state_bytes
    )


# Drafts


def test_a_rolled_back_draft_leaves_no_trace(kept: Model, new_context: NewContext) -> None:
    context, fresh = new_context(of=kept, n_snapshots=N_SNAPSHOTS), new_context(of=kept)
    assert context.n_rollback == N_SNAPSHOTS
    fresh.decode(PROMPT, 1)
    wrong = [9, 8, 7, 6, 5, 4, 3]
    for n_right in range(1, N_SNAPSHOTS + 1):
        context.clear()
        context.decode(PROMPT[:100], 0)
        context.decode([*PROMPT[100 : 100 + n_right], *wrong[n_right - 1 :]], 8)
        assert context.truncate(100 + n_right)
        assert native.llama_memory_seq_pos_max(context._memory, 0) + 1 == context.n_past == 100 + n_right
        context.decode(PROMPT[100 + n_right :], 1)
        np.testing.assert_allclose(context.logits(0), fresh.logits(0), atol=0.02)


def test_a_rollback_beyond_the_snapshots_is_refused(kept: Model, new_context: NewContext) -> None:
    context = new_context(of=kept, n_snapshots=N_SNAPSHOTS)
    context.decode(PROMPT[:50], 0)
    assert not context.truncate(50 - N_SNAPSHOTS - 1)
    assert context.truncate(50 - N_SNAPSHOTS)
    # The states belong to one batch and can be used once; llama.cpp would accept the first of these.
    context.decode([5, 6, 7], 0)
    assert not context.truncate(context.n_past - 3)
    assert context.truncate(context.n_past - 2)
    assert not context.truncate(context.n_past - 1)
    context.decode([5], 0)
    assert not context.truncate(context.n_past - 1)


# Pairs


def facts_of(model: Model) -> ModelFacts:
    return model_facts(model.header, file=model.path.name, size=1)


def test_a_pair_drafts_if_the_target_can_roll_back(
    hybrid: Model, tiny: Callable[..., Path], open_pair: OpenPair
) -> None:
    pair = open_pair(hybrid.path, tiny(), n_ctx=256)
    told = [notice for notice in pair.notices if "cannot be rolled back" in notice]
    can = facts_of(hybrid).keeps_snapshots
    assert (pair.target.n_rollback > 0) is can
    assert pair.info.most_drafted == (N_SNAPSHOTS if can else 0)
    assert (pair.drafter is not None) is can
    assert pair.info.why_no_draft(AutoDraft()) == (None if can else "the state of this model cannot be rolled back")
    assert bool(told) is not can
    list(pair.measure_costs(lambda: False))
    assert pair.memory is not None
    widths = pair.memory.costs.snapshot().batch_ns
    assert max(widths) == (1 + N_SNAPSHOTS if can else 1)
    if pair.drafter is not None:
        plain, _ = answer(pair, NoDrafting(), PROMPT[:40], 30)
        pair.target.rollback(0)
        drafted, steps = answer(pair, FixedDrafting(pair.drafter, DraftParams(16, 0, 0.0)), PROMPT[:40], 30)
        assert drafted == plain
        assert 0 < max(len(step.draft) for step in steps) <= N_SNAPSHOTS


def test_a_draft_model_with_recurrent_state_is_refused(
    hybrid: Model, tiny: Callable[..., Path], open_pair: OpenPair
) -> None:
    pair = open_pair(tiny(), hybrid.path, n_ctx=256)
    assert pair.drafter is None
    assert any("recurrent state cannot be rolled back" in notice for notice in pair.notices)


@pytest.mark.parametrize(
    ("symbols", "ours"),
    [
        ((_IS_HYBRID, _IS_RECURRENT), is_recurrent),
        ((_KEEPS_SNAPSHOTS,), lambda name: keeps_snapshots(GgufHeader({"general.architecture": name}, 0))),
    ],
    ids=["recurrent", "snapshots"],
)
def test_every_architecture_is_as_llama_cpp_has_it(symbols: tuple[str, ...], ours: Callable[[str], bool]) -> None:
    if not all(hasattr(native._lib, symbol) for symbol in (_NAME, *symbols)):
        pytest.skip("not exported by this build")
    name, *asked = (native._lib[symbol] for symbol in (_NAME, *symbols))
    name.restype = ctypes.c_char_p
    for one in asked:
        one.restype = ctypes.c_bool
    told = {
        name(i).decode(): any(one(ctypes.byref(ctypes.c_int(i))) for one in asked) for i in range(_MORE_THAN_THERE_ARE)
    }

    assert {"llama", "lfm2", "qwen35"} <= told.keys()
    assert told == {known: ours(known) for known in told}
