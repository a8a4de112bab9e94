"""Calls that would end the process in llama.cpp raise errors.

Hostile files have tests of their own (test_checks, test_files).
"""

import ctypes
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from app.core.errors import DecodeError, ModelLoadError, UsageError
from app.engine.probability import most_probable, probability_of
from app.engine.types import SamplingParams
from app.llama.checks import open_model_file
from app.llama.context import Context
from app.llama.library import function, native
from app.llama.model import Model
from app.llama.params import FLASH_ATTENTION
from app.llama.sampler import SamplerChain
from app.settings.model_params import ContextParams, ModelParams
from app.settings.placement import KV_TYPES, needs_flash_attention
from tests.llama.conftest import NewContext
from tests.llama.generation import GREEDY
from tests.llama.gguf_files import I32, Array
from tests.llama.tiny_model import vocabulary, write_model

pytestmark = pytest.mark.native


@pytest.mark.parametrize("kv_type", KV_TYPES)
def test_cache_type_sizes_equal_those_of_ggml(kv_type: str) -> None:
    told = KV_TYPES[kv_type]
    n_bytes, n_values = (
        function(name, ctypes.c_int64, [ctypes.c_int])(told.ggml_type) for name in ("ggml_type_size", "ggml_blck_size")
    )
    name = function("ggml_type_name", ctypes.c_char_p, [ctypes.c_int])(told.ggml_type)

    assert (name.decode(), n_bytes / n_values, n_values > 1) == (kv_type, told.n_bytes, needs_flash_attention(kv_type))


@pytest.mark.parametrize("flash_attention", FLASH_ATTENTION)
@pytest.mark.parametrize("kv_type", KV_TYPES)
def test_every_cache_type_decodes_or_is_refused_with_an_error(
    draft_model: Model, kv_type: str, flash_attention: str
) -> None:
    wanted = ContextParams(64, kv_type=kv_type, flash_attention=flash_attention)
    try:
        context = Context(draft_model, wanted)
    except ModelLoadError as error:
        assert "context of 64 tokens" in error.message  # noqa: PT017 - either way is right
        return
    try:
        context.decode((1, 2, 3), 1)
        assert np.isfinite(context.logits(0)).all()
    finally:
        context.close()


def test_a_context_that_does_not_fit_into_memory_is_an_error(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "llama_init_from_model", lambda *_: None)
    with pytest.raises(
        ModelLoadError, match=r"could not create a context of 64 tokens for .*: no reason was given\."
    ) as e:
        Context(model, ContextParams(64))
    assert "model.ctx" in e.value.hint


def test_a_cache_type_that_the_heads_forbid_is_an_error(tmp_path: Path) -> None:
    # Heads of 16 values
    model = Model(open_model_file(write_model(tmp_path / "tiny.gguf")), ModelParams())
    with pytest.raises(ModelLoadError, match=r"could not create a context .*n_embd_head_k=16") as raised:
        Context(model, ContextParams(64, kv_type="q8_0"))
    assert "f16" in raised.value.hint
    model.close()


# Batches


def test_an_empty_batch_and_one_longer_than_n_batch_are_refused(new_context: NewContext) -> None:
    context = new_context(256, n_batch=16)
    with pytest.raises(UsageError, match="A batch has 0 tokens"):
        context.decode((), 0)
    with pytest.raises(UsageError, match="A batch has 17 tokens; 1 to 16 are possible"):
        context.decode([1] * 17, 0)
    context.decode([1] * 16, 0)


@pytest.mark.parametrize("n_outputs", [-1, 3, 9])
def test_more_outputs_than_there_is_room_for_are_refused(new_context: NewContext, n_outputs: int) -> None:
    context = new_context(n_outputs=2)
    with pytest.raises(UsageError, match="outputs; 0 to"):
        context.decode([1] * 8, n_outputs)
    assert context.n_past == 0


@pytest.mark.parametrize("token", [-1, 49_152, (1 << 31) - 1, 1 << 31, -(1 << 40)])
def test_tokens_outside_the_vocabulary_are_refused_and_named(context: Context, token: int) -> None:
    context.decode((1, 2), 1)
    with pytest.raises(UsageError, match=f"Token {token} is not in the vocabulary of 49,152"):
        context.decode((1, token, 2), 1)
    assert context.n_past == 2
    context.decode((3,), 1)


@pytest.mark.parametrize("n", [8, 40])
def test_positions_are_consecutive_after_truncations(context: Context, n: int) -> None:
    # A batch keeps what the previous batch wrote; a repeated position would be accepted silently.
    rng = np.random.default_rng(0)
    for cut in (0, 5, 100, 3):
        context.truncate(min(cut, context.n_past))
        first = context.n_past
        context.decode(rng.integers(0, 1000, n).tolist(), 1)
        assert list(context._batch._positions[:n]) == list(range(first, first + n))
        assert native.llama_memory_seq_pos_max(context._memory, 0) == context.n_past - 1
        assert native.llama_memory_seq_pos_min(context._memory, 0) == 0


def test_a_full_context_is_an_error_and_loses_nothing(new_context: NewContext) -> None:
    context = new_context(32)
    n_ctx = context.n_ctx
    while room := n_ctx - 1 - context.n_past:
        context.decode([1] * min(room, context.n_batch), 0)
    with pytest.raises(DecodeError, match="is full") as caught:
        context.decode((1, 2), 1)
    assert caught.value.hint
    assert context.n_past == n_ctx - 1
    context.decode((1,), 1)
    with pytest.raises(DecodeError, match="is full"):
        context.decode((1,), 1)
    assert context.truncate(4)
    context.decode((1, 2), 1)
    assert context.n_past == 6


@pytest.mark.parametrize(
    ("code", "match"),
    [
        (1, "is full"),
        (-1, "could not evaluate a batch: code -1"),
        (-2, "Memory ran out while .* computed a batch"),
        (-3, "code -3"),
    ],
)
def test_every_decode_return_code_is_checked(
    context: Context, code: int, match: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    context.decode((1, 2), 1)
    monkeypatch.setattr(native, "llama_decode", lambda *_: code)
    with pytest.raises(DecodeError, match=match) as caught:
        context.decode((3,), 1)
    assert caught.value.hint
    assert context.n_past == 2
    with pytest.raises(UsageError, match="0 output rows"):
        context.logits(0)
    monkeypatch.undo()
    context.decode((3,), 1)
    assert context.n_past == 3


@pytest.mark.parametrize("n_past", [-1, 3, 1 << 31])
def test_a_truncation_outside_the_cache_is_refused(context: Context, n_past: int) -> None:
    context.decode((1, 2), 1)
    with pytest.raises(UsageError, match="cannot be cut"):
        context.truncate(n_past)
    assert context.n_past == 2


def test_rows_that_were_not_requested_are_refused(context: Context) -> None:
    chain = SamplerChain(context, SamplingParams(seed=1))
    with pytest.raises(UsageError, match="There is no row 0: the last decode has 0 output rows"):
        context.logits(0)
    with pytest.raises(UsageError):
        chain.sample(0)
    context.decode((1, 2, 3, 4), 2)
    for row in (-1, 2, 4):
        with pytest.raises(UsageError, match="2 output rows"):
            context.logits(row)
        with pytest.raises(UsageError, match="2 output rows"):
            chain.sample(row)
        with pytest.raises(UsageError, match="2 output rows"):
            context.sample(chain._chain, row)
    chain.sample(1)
    context.decode((5,), 0)
    with pytest.raises(UsageError, match="0 output rows"):
        chain.sample(0)
    chain.close()


@pytest.mark.parametrize(
    "sampling",
    [
        SamplingParams(seed=1),
        SamplingParams(temperature=0, repeat_penalty=1.1),
        SamplingParams(temperature=0, top_k=0, top_p=1, min_p=0, presence_penalty=1),
        SamplingParams(top_k=0, top_p=1, min_p=0, seed=1),
        SamplingParams(top_k=0, top_p=0, min_p=1, typical_p=0, seed=1),
        SamplingParams(top_k=1_000_000, typical_p=0.5, repeat_penalty=100, frequency_penalty=-100, seed=1),
        SamplingParams(temperature=100, repeat_penalty=0.01, repeat_last_n=65_536, seed=0xFFFFFFFE),
        SamplingParams(temperature=1e-30, seed=0),
    ],
)
def test_every_sampler_chain_selects_a_token(context: Context, sampling: SamplingParams) -> None:
    context.decode((1, 2, 3), 1)
    chain = SamplerChain(context, sampling)
    chain.begin((1, 2, 3))
    for _ in range(3):
        token = chain.sample(0)
        assert 0 <= token < context.model.n_vocab
        context.decode((token,), 1)
    chain.close()


def test_penalties_are_not_shown_tokens_outside_the_vocabulary(context: Context) -> None:
    chain = SamplerChain(context, SamplingParams(repeat_penalty=1.1))
    with pytest.raises(UsageError, match="Token 49152"):
        chain.begin((1, 49_152))
    chain.close()


@pytest.mark.parametrize("sampling", [GREEDY, SamplingParams(top_k=0, seed=1), SamplingParams(seed=1)])
@pytest.mark.parametrize("where", [slice(None), slice(7, 8)])
def test_nan_logits_are_an_error(context: Context, sampling: SamplingParams, where: slice) -> None:
    context.decode((1, 2, 3), 1)
    context.logits(0)[where] = np.nan
    chain = SamplerChain(context, sampling)
    with pytest.raises(DecodeError, match="not numbers") as caught:
        chain.sample(0)
    assert caught.value.hint
    chain.close()


@pytest.mark.parametrize(
    "sampling",
    [
        GREEDY,
        SamplingParams(temperature=0, repeat_penalty=1.1),
        SamplingParams(top_k=0, top_p=1, min_p=0, seed=1),
        SamplingParams(temperature=100, repeat_penalty=0.01, top_k=0, top_p=1, min_p=0, seed=1),
    ],
)
def test_suppressed_tokens_are_never_sampled(
    tiny: Callable[..., Path], new_context: NewContext, sampling: SamplingParams
) -> None:
    allowed = {7, 70, 200}
    forbidden = [t for t in range(len(vocabulary())) if t not in allowed]
    # A suppressed token outside the vocabulary does not refuse the file.
    model = Model(open_model_file(tiny(tokenizer__ggml__suppress_tokens=Array(I32, [*forbidden, 1 << 30]))))
    context = new_context(of=model)
    chain = SamplerChain(context, sampling)
    chain.begin((2, 3))
    context.decode((2, 3, 4), 3)
    written = [chain.sample(row) for row in (0, 1, 2)]
    for _ in range(20):
        context.decode(written[-1:], 1)
        written.append(chain.sample(0))
    assert set(written) <= allowed
    # The draft model's confidence and the inspector's values are also affected.
    assert most_probable(context.logits(0))[0] in allowed
    assert probability_of(context.logits(0), forbidden[0]) == 0
    chain.close()


@pytest.mark.parametrize("token", [-1, -2, 49_152, 1 << 31])
def test_texts_of_tokens_outside_the_vocabulary_are_refused(model: Model, token: int) -> None:
    for ask in (model.piece, model.text_of):
        with pytest.raises(UsageError, match="not in the vocabulary"):
            ask(token)
    assert not model.is_end(token)
