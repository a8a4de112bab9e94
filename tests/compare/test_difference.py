"""Why two answers differ: rounding at a near-tie, or something that must not be."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
import pytest

from app.compare.difference import Difference, explain, parting_lines
from app.compare.lossless import (
    EVERYTHING,
    Checks,
    GreedyCheck,
    SampledCheck,
    check,
    check_greedy,
    check_sampled,
    statement,
)
from app.compare.race import Run, VerifyStep, in_process, race
from app.compare.report import compared, comparison_lines, lossless_lines
from app.compare.suite import Prompt
from app.conversations.message import Message, Role
from app.core.errors import Interrupted
from app.engine.types import DraftParams, SamplingParams
from app.worker.request import AnswerRequest
from tests.fakes import FakeModel, FakeSampler, Rule, mixing
from tests.pairs import FakePair

PROMPT = "hello"
GREEDY = SamplingParams(temperature=0)
DRAFTS = DraftParams(3, 0, 0.0)
REQUEST = AnswerRequest((Message(Role.USER, PROMPT),), GREEDY, max_tokens=12)
PLACE = 6
"""The token of the answer at which the two best are close."""


class Rounding(FakeModel):
    """A model whose logits move with the width of the batch, as real ones do.

    Args:
        gap: How far token 61 is behind the best at the place.
        moves: How much a batch lifts it.
    """

    def __init__(self, rule: Rule, gap: float, moves: float) -> None:
        super().__init__(rule)
        self.gap, self.moves, self.width = gap, moves, 1
        self.remembers = False

    def decode(self, tokens: Sequence[int], n_outputs: int) -> None:
        self.width = max(n_outputs, self.width) if self.remembers else n_outputs
        super().decode(tokens, n_outputs)

    def _row(self) -> np.ndarray:
        row = super()._row()
        if len(self.cells) == len(PROMPT) + PLACE:
            row[61] = row.max() - self.gap + (self.moves if self.width > 1 else 0.0)
        return row


def runs(pair: FakePair, request: AnswerRequest = REQUEST) -> tuple[Run, Run]:
    contenders = [in_process(pair, "plain", None), in_process(pair, "drafted", DRAFTS)]
    work = race(contenders, request, 1, lambda: False, warm_up_tokens=0)
    while True:
        try:
            next(work)
        except StopIteration as ended:
            return ended.value[0]["plain"], ended.value[0]["drafted"]


def never() -> bool:
    return False


def rounding_pair(gap: float, moves: float) -> FakePair:
    return FakePair(Rounding(mixing(5), gap, moves), FakeModel(mixing(5)))


def explained(pair: FakePair) -> Difference:
    found = explain(pair, *runs(pair), GREEDY, never)
    assert found is not None
    return found


def test_the_same_text_has_no_difference() -> None:
    pair = rounding_pair(0.05, 0.0)
    assert explain(pair, *runs(pair), GREEDY, never) is None


def test_a_near_tie_is_told_with_both_logits() -> None:
    found = explained(rounding_pair(gap=0.05, moves=0.08))

    assert found.index == PLACE
    assert found.drafted == 61
    assert found.width == 4
    assert found.near_tie is True
    assert found.alone is not None
    assert found.batched is not None
    assert found.alone[0] - found.alone[1] == pytest.approx(0.05, abs=1e-4)
    assert found.batched[1] - found.batched[0] == pytest.approx(0.03, abs=1e-4)
    assert found.moved == pytest.approx(0.08, abs=1e-4)
    assert found.p_alone is not None
    assert found.p_alone[0] / found.p_alone[1] == pytest.approx(math.exp(0.05), rel=1e-3)
    assert found.p_batched is not None
    assert found.p_batched[1] / found.p_batched[0] == pytest.approx(math.exp(0.03), rel=1e-3)
    assert found.why.startswith("rounding difference: ")
    assert "(here 4, without drafts 1)" in found.why


def test_a_batch_that_moves_too_much_is_no_rounding() -> None:
    found = explained(rounding_pair(gap=2.0, moves=4.0))

    assert found.near_tie is False
    assert "a real difference: the batch moved a logit by 4" in found.why


def test_a_token_that_the_logits_do_not_explain_is_a_real_difference() -> None:
    pair = FakePair(FakeModel(mixing(5)), FakeModel(mixing(5)))
    plain, drafted = runs(pair)
    wrong = replace(drafted, tokens=(*drafted.tokens[:PLACE], 61, *drafted.tokens[PLACE + 1 :]))

    found = explain(pair, plain, wrong, GREEDY, never)
    assert found is not None
    assert found.near_tie is False
    assert "the batch moved a logit by at most 0" in found.why


def test_a_first_token_can_differ_too() -> None:
    pair = FakePair(FakeModel(mixing(5)), FakeModel(mixing(5)))
    plain, drafted = runs(pair)
    found = explain(pair, plain, replace(drafted, tokens=(61, *drafted.tokens[1:])), GREEDY, never)

    assert found is not None
    assert (found.index, found.near_tie, found.width) == (0, False, 0)


def test_an_answer_that_is_only_shorter_needs_no_logits() -> None:
    pair = FakePair(FakeModel(mixing(5)), FakeModel(mixing(5)))
    plain, drafted = runs(pair)
    found = explain(pair, plain, replace(drafted, tokens=drafted.tokens[:4]), GREEDY, never)

    assert found is not None
    assert (found.index, found.drafted, found.near_tie) == (4, None, None)


def test_the_very_batches_of_the_drafted_side_are_computed_again() -> None:
    pair = rounding_pair(gap=0.05, moves=0.08)
    plain, drafted = runs(pair)
    model = pair.samplers[0]._model
    before = len(model.batches)
    explain(pair, plain, drafted, GREEDY, never)

    again = model.batches[before:]
    widths = [len(batch) for batch in again[again.index(again[0], 1) + 1 :]]
    assert widths == [step.drafted + 1 for step in drafted.steps if step.first <= PLACE]


def test_a_sampled_difference_is_drawn_again() -> None:
    def two(sequence: Sequence[int]) -> dict[int, float]:
        return {1 + len(sequence) % 7: 0.5, 20: 0.5}

    pair = FakePair(FakeModel(two), FakeModel(two))
    sampling = SamplingParams(temperature=1.0, seed=3)
    plain, drafted = runs(pair, replace(REQUEST, sampling=sampling))
    assert explain(pair, plain, drafted, sampling, never) is None
    other = 20 if plain.tokens[3] != 20 else 1 + (len(PROMPT) + 3) % 7
    found = explain(pair, plain, replace(drafted, tokens=(*drafted.tokens[:3], other)), sampling, never)
    assert found is not None
    assert found.near_tie is False
    assert "gives other tokens" in found.why


def test_explaining_can_be_stopped() -> None:
    pair = rounding_pair(0.05, 0.08)
    both = runs(pair)
    with pytest.raises(Interrupted):
        explain(pair, *both, GREEDY, lambda: True)


def test_the_report_shows_where_and_why() -> None:
    pair = rounding_pair(0.05, 0.08)
    plain, drafted = runs(pair)
    found = explain(pair, plain, drafted, GREEDY, never)
    text = "\n".join(comparison_lines(compared([{"plain": plain, "drafted": drafted}], {"drafted": found})))

    assert f"differs at token {PLACE + 1}" in text
    assert "rounding difference" in text
    assert "without drafts" in text
    assert "the batch size (here 4" in text
    assert "logit" not in text


def test_a_token_behind_a_wider_batch_is_explained_by_that_batch() -> None:
    """A round without a draft computes one token, on cells that wider batches have rounded."""
    pair = rounding_pair(0.05, 0.08)
    plain, drafted = runs(pair)
    single = replace(drafted, steps=tuple(s for s in drafted.steps if s.first + s.tokens <= PLACE))
    alone = [VerifyStep(i, 1, 0, 0, 0) for i in range(single.steps[-1].first + single.steps[-1].tokens, 12)]
    model = pair.samplers[0]._model
    assert isinstance(model, Rounding)
    model.remembers, model.width = True, 1
    found = explain(pair, plain, replace(single, steps=(*single.steps, *alone)), GREEDY, never)

    assert found is not None
    assert (found.width, found.near_tie) == (1, True)
    assert "(1 after larger ones, always 1 without drafts)" in found.why


def test_probabilities_have_the_decimals_that_tell_them_apart() -> None:
    tie = Difference(
        3,
        11,
        12,
        " a",
        "",
        5,
        (1.0, 1.0),
        (1.0, 1.0),
        0.1,
        near_tie=True,
        why="",
        p_alone=(0.25, 0.2),
        p_batched=(0.2, 0.20004),
    )
    assert parting_lines(tie)[0] == (
        'differs at token 4: "·a" without drafts (25.000% against 20.000%), '
        "control token 12 with (20.004% against 20.000%)"
    )


# Lossless


T = TypeVar("T")


def drain(work: Generator[object, None, T]) -> T:
    while True:
        try:
            next(work)
        except StopIteration as ended:
            result: T = ended.value
            return result


def test_greedy_answers_are_compared_token_by_token() -> None:
    pair = rounding_pair(0.05, 0.08)
    (done,) = drain(check_greedy(pair, "chat, one", REQUEST, [("fixed", DRAFTS)], never))

    assert done.compared == PLACE + 1
    assert done.drafted == 6
    assert done.holds
    assert "1 near-tie that rounding decided" in statement(Checks([done]))
    assert "rounding difference" in "\n".join(lossless_lines(Checks([done])))


def test_a_real_difference_is_not_lossless() -> None:
    pair = rounding_pair(2.0, 4.0)
    (done,) = drain(check_greedy(pair, "chat, one", REQUEST, [("fixed", DRAFTS)], never))

    assert not done.holds
    assert statement(Checks([done])).startswith("Not lossless here: 1 greedy answer differs")


def test_both_sides_draw_with_seeds_of_their_own() -> None:
    pair = FakePair(FakeModel(four), FakeModel(four))
    drain(check_sampled(pair, REQUEST, "all", EVERYTHING, 5, never))
    assert len({sampler.seed for sampler in pair.samplers}) == 10


def sampled(pair: FakePair) -> SampledCheck:
    request = replace(REQUEST, sampling=SamplingParams(temperature=1.0))
    return drain(check_sampled(pair, request, "all", EVERYTHING, 150, never))


def four(sequence: Sequence[int]) -> dict[int, float]:
    return {2 + len(sequence): 0.4, 1: 0.3, 30: 0.2, 31: 0.1}


def test_sampled_answers_have_one_distribution() -> None:
    found = sampled(FakePair(FakeModel(four), FakeModel(four)))

    assert found.drafted > 100
    assert found.freedom > 5
    assert found.holds
    assert "differ no more than chance allows" in statement(Checks([], [found]))


class Greedily(FakeSampler):
    """A fault: where a draft was submitted it takes the most probable token instead of drawing."""

    def sample(self, row: int) -> int:
        model = self._model
        if len(model._rows) < 2:
            return super().sample(row)
        return int(model.logits(row).argmax())


def test_a_bias_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = FakePair(FakeModel(four), FakeModel(four))
    monkeypatch.setattr(pair, "new_sampler", lambda params: Greedily(pair._model, params.seed))
    found = sampled(pair)

    assert not found.holds
    assert "another distribution" in statement(Checks([], [found]))


def test_a_whole_check_and_its_early_end() -> None:
    pair = FakePair(FakeModel(four), FakeModel(four))
    prompts = [Prompt("chat", "one", "abc"), Prompt("prose", "two", "def")]
    checks = Checks()
    ways = [("everything", EVERYTHING)]
    for _ in check(pair, checks, prompts, REQUEST, ways, 20, never):
        pass
    assert [c.prompt for c in checks.greedy] == ["chat, one", "prose, two"]
    assert len(checks.sampled) == 1

    stopped = Checks()
    with pytest.raises(Interrupted):
        drain(check(pair, stopped, prompts, REQUEST, ways, 20, lambda: bool(stopped.greedy)))
    assert stopped.greedy
    assert not stopped.sampled


def test_nothing_drafted_is_nothing_tested() -> None:
    untested = GreedyCheck("chat, one", "automatic", 8, 0, None)
    for checks in (Checks(), Checks([untested])):
        assert statement(checks) == "Nothing was drafted, so nothing was tested."
        assert checks.hold is None
    assert Checks([untested, replace(untested, drafted=1)]).hold is True


def test_answers_that_were_too_few_are_no_test() -> None:
    check = SampledCheck("everything", 8, 8, 0.0, 0, 1.0)
    assert "too few or too much alike for a test" in statement(Checks([], [check]))
