"""Speculative decoding on real models: the target's own text, in fewer rounds, and caches that stay right."""

import pytest

from app.conversations.message import Message, Role
from app.engine.types import DraftParams, SamplingParams
from app.llama.model import Model
from app.llama.prompt import PromptBuilder
from tests.llama.conftest import NewContext
from tests.llama.generation import NEAR_TIE, Machine, rows_alone

pytestmark = pytest.mark.native
COUNT, POEM, CODE = "Count from one to twenty.", "Write a short poem about rain.", "def fibonacci(n):"
EVERYTHING = DraftParams(n_max=5, n_min=0, p_min=0.0)


def prompt_of(model: Model, *texts: str) -> list[int]:
    roles = (Role.USER, Role.ASSISTANT)
    messages = [Message(roles[i % 2], text) for i, text in enumerate(texts)]
    return list(PromptBuilder(model).build(messages).tokens)


@pytest.fixture
def machine(new_context: NewContext, draft_model: Model) -> Machine:
    return Machine(new_context(512), new_context(512, of=draft_model, n_outputs=1))


def test_a_target_that_drafts_for_itself_accepts_everything(model: Model, new_context: NewContext) -> None:
    machine = Machine(new_context(512), new_context(512, n_outputs=1))
    prompt = prompt_of(model, COUNT)
    sequence = list(prompt)
    accepted = 0
    for step in machine.answer(prompt, drafting=EVERYTHING).steps:
        accepted += step.n_accepted
        if step.n_accepted < len(step.draft) and step.tokens[-1] != step.draft.tokens[step.n_accepted]:
            # Evaluated alone and in a batch, a near tie may fall either way; nothing else may be rejected.
            before = [*sequence, *step.tokens[: step.n_accepted]]
            (row,) = rows_alone(new_context(512), before, len(before) - 1)
            assert row.max() - row[step.draft.tokens[step.n_accepted]] < NEAR_TIE
        sequence += step.tokens
    assert accepted >= 15


def test_a_seeded_draw_takes_one_number_for_every_emitted_token(machine: Machine) -> None:
    sampling = SamplingParams(temperature=0.8, seed=7)
    prompt = prompt_of(machine.model, POEM)
    plain = machine.answer(prompt, sampling=sampling)
    machine.target.rollback(0)
    drafted = machine.answer(prompt, sampling=sampling, drafting=EVERYTHING)
    other = machine.answer(prompt, sampling=SamplingParams(temperature=0.8, seed=8))
    assert plain.tokens != other.tokens
    assert drafted.samples == len(drafted.tokens)
    same = next((i for i, (a, b) in enumerate(zip(plain.tokens, drafted.tokens, strict=False)) if a != b), 24)
    # Longer than the first draft: had a rejected row cost a number, everything after it would differ.
    assert same > len(drafted.steps[0].tokens) + len(drafted.steps[1].tokens)
