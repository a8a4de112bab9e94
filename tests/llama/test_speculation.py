"""Speculative decoding on real models: the target's own text, in fewer rounds, and caches that stay right."""

from __future__ import annotations

import pytest

from app.conversations.message import Message, Role
from app.engine.types import DraftParams, FinishReason, SamplingParams, Step
from app.llama.context import Context
from app.llama.model import Model
from app.llama.prompt import PromptBuilder
from tests.llama.conftest import NewContext
from tests.llama.generation import NEAR_TIE, Machine, assert_same_up_to_rounding, penalised, rows_alone

pytestmark = pytest.mark.native
PROMPTS = [
    "Count from one to twenty.",
    "Write a short poem about rain.",
    'Repeat after me: "a b c a b c a b c".',
    "def fibonacci(n):",
]
EVERYTHING = DraftParams(n_max=5, n_min=0, p_min=0.0)
LIKELY = DraftParams(n_max=7, n_min=0, p_min=0.6)


def prompt_of(model: Model, *texts: str) -> list[int]:
    roles = (Role.USER, Role.ASSISTANT)
    messages = [Message(roles[i % 2], text) for i, text in enumerate(texts)]
    return list(PromptBuilder(model).build(messages).tokens)


@pytest.fixture
def machine(new_context: NewContext, draft_model: Model) -> Machine:
    return Machine(new_context(512), new_context(512, of=draft_model, n_outputs=1))


@pytest.mark.parametrize("text", PROMPTS)
@pytest.mark.parametrize("drafting", [EVERYTHING, LIKELY])
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


@pytest.mark.parametrize("text", PROMPTS[:2])
def test_a_target_that_drafts_for_itself_accepts_everything(model: Model, new_context: NewContext, text: str) -> None:
    machine = Machine(new_context(512), new_context(512, n_outputs=1))
    prompt = prompt_of(model, text)
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


@pytest.mark.parametrize("drafting", [EVERYTHING, LIKELY])
def test_both_caches_hold_what_they_should_after_every_round(machine: Machine, drafting: DraftParams) -> None:
    rounds: list[tuple[int, int]] = []

    def look(sequence: list[int], step: Step) -> None:
        assert machine.draft is not None
        n_before = len(sequence) - len(step.tokens)
        k, a = len(step.draft), step.n_accepted
        rounds.append((k, a))
        # All but the newest token, which the next batch begins with.
        assert list(machine.target.tokens) == sequence[:-1]
        assert machine.context.n_past == len(machine.target)
        held = len(machine.draft)
        assert list(machine.draft.tokens) == sequence[:held]
        if len(sequence) < len(prompt) + 40:
            # The last drafted token was evaluated only if a next one was looked at and found too unlikely.
            assert held - n_before in ((min(a, k - 1), min(a, k)) if k else (0,))
            assert len(sequence) - held in (1, 2)

    prompt = prompt_of(machine.model, PROMPTS[0])
    machine.answer(prompt, 40, drafting=drafting, after_round=look)
    assert any(a == k > 0 for k, a in rounds)
    assert any(a < k for k, a in rounds) or drafting is LIKELY


def test_penalties_see_exactly_the_emitted_tokens(machine: Machine, new_context: NewContext) -> None:
    sampling = SamplingParams(temperature=0, repeat_penalty=1.3, repeat_last_n=64)
    prompt = prompt_of(machine.model, PROMPTS[2])
    plain = machine.answer(prompt, sampling=sampling)
    machine.target.rollback(0)
    drafted = machine.answer(prompt, sampling=sampling, drafting=EVERYTHING)
    without = machine.answer(prompt)
    assert plain.tokens != without.tokens
    assert len(drafted.tokens) == drafted.samples
    assert any(step.n_accepted < len(step.draft) for step in drafted.steps)
    assert_same_up_to_rounding(
        new_context(512), prompt, plain.tokens, drafted.tokens, lambda row, seen: penalised(row, seen[-64:], 1.3)
    )


def test_a_seeded_draw_takes_one_number_for_every_emitted_token(machine: Machine) -> None:
    sampling = SamplingParams(temperature=0.8, seed=7)
    prompt = prompt_of(machine.model, PROMPTS[1])
    plain = machine.answer(prompt, sampling=sampling)
    machine.target.rollback(0)
    drafted = machine.answer(prompt, sampling=sampling, drafting=EVERYTHING)
    other = machine.answer(prompt, sampling=SamplingParams(temperature=0.8, seed=8))
    assert plain.tokens != other.tokens
    assert drafted.samples == len(drafted.tokens)
    same = next((i for i, (a, b) in enumerate(zip(plain.tokens, drafted.tokens, strict=False)) if a != b), 24)
    # Longer than the first draft: had a rejected row cost a number, everything after it would differ.
    assert same > len(drafted.steps[0].tokens) + len(drafted.steps[1].tokens)


# The next turn


class _Watch:
    """Counts the tokens that a context evaluates."""

    def __init__(self, context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
        self.evaluated: list[int] = []
        decode = context.decode

        def watch(tokens: list[int], n_outputs: int) -> None:
            self.evaluated += tokens
            decode(tokens, n_outputs)

        monkeypatch.setattr(context, "decode", watch)


def test_the_next_turn_evaluates_only_what_is_new(
    new_context: NewContext, draft_model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    draft = new_context(512, of=draft_model, n_outputs=1)
    machine = Machine(new_context(512), draft)
    prompt = prompt_of(machine.model, "Name three rivers.")
    first = machine.answer(prompt, 12, drafting=LIKELY)
    assert (first.cache_n, first.prompt_n) == (0, len(prompt))

    following = [*prompt, *first.tokens, *machine.model.tokenize("\nAnd three hills?", parse_special=False)]
    watch = _Watch(draft, monkeypatch)
    second = machine.answer(following, 1, drafting=LIKELY)
    # The newest token of an answer is never evaluated before the next turn.
    assert second.cache_n == len(prompt) + len(first.tokens) - 1
    assert second.cache_n + second.prompt_n == len(following)
    assert watch.evaluated == []

    machine.answer(following, 6, drafting=LIKELY)
    new = len(following) - len(prompt) - len(first.tokens)
    assert len(watch.evaluated) < new + 3 + 6 * 8
    assert watch.evaluated[: new - 1] != following[: new - 1]


def test_an_edited_conversation_goes_back_to_where_it_differs(
    new_context: NewContext, draft_model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    draft = new_context(512, of=draft_model, n_outputs=1)
    machine, fresh = Machine(new_context(512), draft), Machine(new_context(512))
    prompt = prompt_of(machine.model, "Name three rivers.", "The Rhine.", "Another one, please.")
    machine.answer(prompt, 12, drafting=LIKELY)
    edited = prompt_of(machine.model, "Name three rivers.", "The Po.", "Another one, please.")
    same = next(i for i, (a, b) in enumerate(zip(prompt, edited, strict=False)) if a != b)

    watch = _Watch(draft, monkeypatch)
    again = machine.answer(edited, 12, drafting=LIKELY)

    assert (again.cache_n, again.prompt_n) == (same, len(edited) - same)
    assert watch.evaluated[: len(edited) - same - 1] == edited[same:-1]
    plain = fresh.answer(edited, 12)
    assert_same_up_to_rounding(new_context(512), edited, plain.tokens, again.tokens)


def test_a_cancelled_answer_leaves_caches_that_the_next_one_uses(machine: Machine) -> None:
    prompt = prompt_of(machine.model, PROMPTS[0])
    seen: list[int] = []

    def enough() -> bool:
        return len(seen) >= 3

    def look(sequence: list[int], _: Step) -> None:
        seen.append(len(sequence))

    first = machine.answer(prompt, drafting=LIKELY, cancelled=enough, after_round=look)
    assert first.finish is FinishReason.CANCELLED
    assert len(machine.target) == machine.context.n_past
    assert machine.draft is not None
    again = machine.answer([*prompt, *first.tokens], 8, drafting=LIKELY)
    assert again.cache_n == len(prompt) + len(first.tokens) - 1
    assert len(again.tokens) == 8


# Ends


def never(_: int) -> bool:
    return False


@pytest.mark.parametrize("drafting", [None, EVERYTHING])
def test_the_end_of_the_context_ends_the_answer(
    new_context: NewContext, draft_model: Model, drafting: DraftParams | None
) -> None:
    context = new_context(256)
    machine = Machine(context, new_context(256, of=draft_model, n_outputs=1))
    text = prompt_of(machine.model, "Tell a long story.")
    prompt = (text * 20)[: context.n_ctx - 15]
    run = machine.answer(prompt, None, drafting=drafting, is_end=never)
    assert run.finish is FinishReason.CONTEXT
    # The last token needs no cell: it was chosen from the last one's row.
    assert len(prompt) + len(run.tokens) == context.n_ctx + 1
    assert context.n_past == context.n_ctx == len(machine.target)


@pytest.mark.parametrize("drafting", [None, EVERYTHING])
def test_nothing_comes_after_an_end_token(machine: Machine, drafting: DraftParams | None) -> None:
    prompt = prompt_of(machine.model, PROMPTS[0])
    end = machine.answer(prompt, 24, drafting=drafting, is_end=never).tokens[9]
    machine.target.rollback(0)
    run = machine.answer(prompt, 24, drafting=drafting, is_end=lambda token: token == end)
    assert run.finish is FinishReason.STOP
    assert run.tokens.count(end) == 1
    assert run.tokens[-1] == end
    assert len(run.tokens) <= 10


@pytest.mark.parametrize("n", [1, 2, 5])
def test_as_many_tokens_as_asked_for(machine: Machine, n: int) -> None:
    run = machine.answer(prompt_of(machine.model, PROMPTS[0]), n, drafting=EVERYTHING)
    assert len(run.tokens) == n
    assert run.finish is FinishReason.LENGTH
