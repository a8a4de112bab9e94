"""The demo pair seen from inside: what is told of a round is what happened in it."""

from __future__ import annotations

import pytest

from app.engine.cache import TokenCache
from app.engine.drafters import ModelDrafter
from app.engine.fixed import FixedDrafting
from app.engine.generator import Generator, Request
from app.engine.interfaces import Controls, always
from app.engine.types import DraftParams, SamplingParams, Step
from app.llama.model import Model
from app.llama.sampler import SamplerChain
from tests.llama.conftest import NewContext
from tests.llama.generation import NEAR_TIE, rows_alone

pytestmark = pytest.mark.native


def test_details_agree_with_the_tokens_that_were_emitted(
    model: Model, draft_model: Model, new_context: NewContext
) -> None:
    target, draft = new_context(n_outputs=8), new_context(of=draft_model, n_outputs=1)
    drafter = ModelDrafter(TokenCache(draft), model.n_vocab, model.is_end)
    chain = SamplerChain(target, SamplingParams(temperature=0))
    generator = Generator(TokenCache(target), FixedDrafting(drafter, DraftParams(4, 0, 0.0)), chain)
    prompt = model.tokenize("Once upon a time there was a little", parse_special=False)
    request = Request(prompt, model.is_end, 40, lambda *_: None, Controls(inspected=always))
    steps = [event for event in generator.run(request) if isinstance(event, Step)]
    chain.close()

    emitted = [token for step in steps for token in step.tokens]
    rows = [row.copy() for row in rows_alone(new_context(), [*prompt, *emitted], len(prompt) - 1)]
    at, declined = 1, 0
    for step in steps[1:]:
        seen = step.inspection
        assert seen is not None
        assert len(seen.chosen) == len(step.tokens)
        assert step.draft.tokens[: step.n_accepted] == step.tokens[: step.n_accepted]
        for depth, (token, p) in enumerate(zip(step.tokens, seen.chosen, strict=True)):
            row = rows[at + depth]
            alone = float(1 / (pow(2.718281828, row - row[token])).sum())
            assert p == pytest.approx(alone, abs=NEAR_TIE)
            assert token == row.argmax() or row.max() - row[token] < NEAR_TIE
        if seen.declined is not None:
            declined += 1
            assert step.draft.tokens[step.n_accepted] != step.tokens[step.n_accepted]
            assert seen.declined <= seen.chosen[step.n_accepted]
        at += len(step.tokens)
    assert declined
    assert sum(step.n_accepted for step in steps)
