"""Speculative decoding on real models: the target's own text, in fewer rounds, and caches that stay right."""

from __future__ import annotations

import pytest

from app.conversations.message import Message, Role
from app.engine.types import DraftParams, FinishReason, SamplingParams
from app.llama.model import Model
from app.llama.prompt import PromptBuilder
from tests.llama.conftest import NewContext
from tests.llama.generation import NEAR_TIE, Machine, assert_same_up_to_rounding, rows_alone

pytestmark = pytest.mark.native
COUNT, POEM, CODE = "Count from one to twenty.", "Write a short poem about rain.", "def fibonacci(n):"
EVERYTHING = DraftParams(n_max=5, n_min=0, p_min=0.0)
LIKELY = DraftParams(n_max=7, n_min=0, p_min=0.6)


def prompt_of(model: Model, *texts: str) -> list[int]:
    roles = (Role.USER, Role.ASSISTANT)
    messages = [Message(roles[i % 2], text) for i, text in enumerate(texts)]
    return list(PromptBuilder(model).build(messages).tokens)


@pytest.fixture
def machine(new_context: NewContext, draft_model: Model) -> Machine:
    return Machine(new_context(512), new_context(512, of=draft_model, n_outputs=1))


@pytest.mark.parametrize(("text", "drafting"), [(COUNT, EVERYTHING), (CODE, LIKELY)])
def test_greedy_text_is_the_targets_own(
    machine: Machine, new_context: NewContext, text: str, drafting: DraftParams
) -> None:
    prompt = prompt_of(machine.model, text)
    plain = machine.answer(prompt)
    machine.target.rollback(0)
    drafted = machine.answer(prompt, drafting=drafting)
    assert len(plain.tokens) == plain.samples
    assert len(drafted.tokens) == drafted.samples
    assert len(drafted.steps) < len(plain.steps)
    same = assert_same_up_to_rounding(new_context(512), prompt, plain.tokens, drafted.tokens)
    assert same >= 4


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


def never(_: int) -> bool:
    return False


def test_the_end_of_the_context_ends_the_answer(new_context: NewContext, draft_model: Model) -> None:
    context = new_context(256)
    machine = Machine(context, new_context(256, of=draft_model, n_outputs=1))
    text = prompt_of(machine.model, "Tell a long story.")
    prompt = (text * 20)[: context.n_ctx - 15]
    run = machine.answer(prompt, None, drafting=EVERYTHING, is_end=never)
    assert run.finish is FinishReason.CONTEXT
    # The last token needs no cell: it was chosen from the last one's row.
    assert len(prompt) + len(run.tokens) == context.n_ctx + 1
    assert context.n_past == context.n_ctx == len(machine.target)
