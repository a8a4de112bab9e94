"""The shortlist of a row has its most probable tokens, and the chain draws the same from it as from all tokens."""

import numpy as np
import pytest

from app.engine.types import Guidance, SamplingParams
from app.llama.candidates import Shortlist
from app.llama.context import Context
from app.llama.sampler import SamplerChain

SIZES = (50, 2_560, 49_152, 151_936, 151_999)


@pytest.mark.parametrize("n_vocab", SIZES)
@pytest.mark.parametrize("k", [1, 40, 600])
def test_the_shortlist_holds_the_most_probable_tokens(n_vocab: int, k: int) -> None:
    random, shortlist = np.random.default_rng(n_vocab), Shortlist(n_vocab)
    for spread in (1e-3, 1.0, 8.0):
        row = random.normal(0, spread, n_vocab).astype(np.float32)
        row[random.integers(0, n_vocab, 9)] = -np.inf
        found = shortlist.find(row, k)

        assert set(np.argsort(-row)[:k].tolist()) <= set(found.tolist())
        assert len(set(found.tolist())) == len(found)
        assert len(found) < 1_500 or k > 40 or n_vocab < 10_000


@pytest.mark.parametrize("place", [0, 77_777, 151_998])
def test_the_shortlist_holds_a_logit_that_is_not_a_number(place: int) -> None:
    row = np.zeros(151_999, np.float32)
    row[place] = np.nan

    assert place in Shortlist(len(row)).find(row, 40)


@pytest.mark.native
@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(temperature=1.0, seed=7),
        SamplingParams(temperature=1.5, top_k=300, top_p=1.0, min_p=0.0, seed=8),
        SamplingParams(temperature=1.0, top_k=20, presence_penalty=1.5, repeat_penalty=1.2, seed=5),
        SamplingParams(temperature=0.9, frequency_penalty=-0.8, dry_multiplier=0.8, dry_base=2.0, seed=6),
        SamplingParams(temperature=0.0, presence_penalty=1.0, repeat_last_n=30),
        SamplingParams(temperature=1.2, top_k=60, typical_p=0.9, xtc_probability=0.5, dynatemp_range=0.3, seed=9),
    ],
)
def test_the_chain_draws_the_same_as_from_all_tokens(context: Context, params: SamplingParams) -> None:
    def drawn(*, shortlisted: bool) -> list[int]:
        chain = SamplerChain(context, params, Guidance(logit_bias=((5, 3.0), (300, -100.0))))
        assert chain._n_shortlisted == (params.top_k if params.temperature else 1)
        if not shortlisted:
            chain._n_shortlisted = 0
        context.clear()
        context.decode([1, 2, 3], 1)
        chain.begin([1, 2, 3])
        tokens = []
        for _ in range(60):
            tokens.append(chain.sample(0))
            context.decode(tokens[-1:], 1)
        chain.close()
        return tokens

    found = drawn(shortlisted=True)
    assert found == drawn(shortlisted=False)
    assert len(set(found)) > 10


@pytest.mark.parametrize(
    "changes",
    [
        {"top_k": 0},
        {"temperature": 0.0},
        {"top_n_sigma": 1.0},
        {"mirostat": 2},
    ],
)
@pytest.mark.native
def test_a_chain_that_looks_at_all_tokens_gets_all(context: Context, changes: dict[str, float]) -> None:
    chain = SamplerChain(context, SamplingParams(**{"temperature": 1.0, **changes}))  # type: ignore[arg-type]
    assert chain._n_shortlisted == 0
    chain.close()
