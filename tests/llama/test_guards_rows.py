"""Rows of logits, sampling and texts of tokens: what aborts in llama.cpp is a sentence here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from app.core.errors import DecodeError, UsageError
from app.engine.probability import most_probable, probability_of
from app.engine.types import SamplingParams
from app.llama.checks import open_model_file
from app.llama.context import Context
from app.llama.model import Model
from app.llama.sampler import SamplerChain
from tests.llama.conftest import NewContext
from tests.llama.gguf_files import I32, Array
from tests.llama.tiny_model import vocabulary

pytestmark = pytest.mark.native


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


@pytest.mark.parametrize("greedy", [True, False])
@pytest.mark.parametrize("where", [slice(None), slice(7, 8)])
def test_nan_logits_are_an_error(context: Context, greedy: bool, where: slice) -> None:
    context.decode((1, 2, 3), 1)
    context.logits(0)[where] = np.nan
    chain = SamplerChain(context, SamplingParams(temperature=0 if greedy else 1, top_k=0, seed=1))
    with pytest.raises(DecodeError, match="not numbers") as caught:
        chain.sample(0)
    assert caught.value.hint
    chain.close()


@pytest.mark.parametrize(
    "sampling",
    [
        SamplingParams(temperature=0),
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
    # One that is in no vocabulary is no reason to refuse the file.
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
    # So is the draft model's confidence, and what an inspector shows.
    assert most_probable(context.logits(0))[0] in allowed
    assert probability_of(context.logits(0), forbidden[0]) == 0
    chain.close()


@pytest.mark.parametrize("token", [-1, -2, 49_152, 1 << 31])
def test_texts_of_tokens_outside_the_vocabulary_are_refused(model: Model, token: int) -> None:
    for ask in (model.piece, model.text_of):
        with pytest.raises(UsageError, match="not in the vocabulary"):
            ask(token)
    assert not model.is_end(token)
