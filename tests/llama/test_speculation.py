"""Speculative decoding on real models: the target's own text, in fewer steps, and caches that stay right."""

from pathlib import Path

import pytest

from app.conversations.message import Message, Role
from app.engine.fixed import FixedDrafting, NoDrafting
from app.engine.types import DraftParams, SamplingParams
from app.llama.pair import NativePair
from app.llama.sampler import SamplerChain
from tests.llama.conftest import NewContext, OpenPair
from tests.llama.generation import NEAR_TIE, answer, rows_alone

pytestmark = pytest.mark.native
N_TOKENS = 24


def everything(pair: NativePair) -> FixedDrafting:
    assert pair.drafter is not None
    pair.target.rollback(0)
    return FixedDrafting(pair.drafter, DraftParams(n_max=5, n_min=0, p_min=0.0))


def prompt_of(pair: NativePair, text: str) -> tuple[int, ...]:
    return pair.prompts.build([Message(Role.USER, text)]).tokens


def test_a_target_that_drafts_for_itself_accepts_everything(
    demo_target: Path, open_pair: OpenPair, new_context: NewContext
) -> None:
    pair = open_pair(demo_target, demo_target, n_ctx=512)
    prompt = prompt_of(pair, "Count from one to twenty.")
    sequence = list(prompt)
    accepted = 0
    for step in answer(pair, everything(pair), prompt, N_TOKENS)[1]:
        accepted += step.n_accepted
        if step.n_accepted < len(step.draft) and step.tokens[-1] != step.draft.tokens[step.n_accepted]:
            # Evaluated alone and in a batch, a near tie may fall either way; nothing else may be rejected.
            before = [*sequence, *step.tokens[: step.n_accepted]]
            (row,) = rows_alone(new_context(512), before, len(before) - 1)
            assert row.max() - row[step.draft.tokens[step.n_accepted]] < NEAR_TIE
        sequence += step.tokens
    assert accepted >= 15


def test_a_seeded_draw_takes_one_number_for_every_emitted_token(
    pair: NativePair, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[int] = []
    sample = SamplerChain.sample

    def counted(chain: SamplerChain, row: int) -> int:
        drawn.append(row)
        return sample(chain, row)

    prompt = prompt_of(pair, "Write a short poem about rain.")
    plain, other = (
        answer(pair, NoDrafting(), prompt, N_TOKENS, SamplingParams(temperature=0.8, seed=seed))[0] for seed in (7, 8)
    )
    monkeypatch.setattr(SamplerChain, "sample", counted)
    tokens, steps = answer(pair, everything(pair), prompt, N_TOKENS, SamplingParams(temperature=0.8, seed=7))

    assert plain != other
    assert len(drawn) == len(tokens)
    same = next((i for i, (a, b) in enumerate(zip(plain, tokens, strict=False)) if a != b), N_TOKENS)
    # Longer than the first draft: had a rejected row cost a number, everything after it would differ.
    assert same > len(steps[0].tokens) + len(steps[1].tokens)
