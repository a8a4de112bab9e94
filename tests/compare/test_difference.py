"""Why two answers differ: rounding at a near-tie, or a fault."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from app.compare.difference import Difference, explain
from app.compare.race import Run, Side, VerifyStep, race
from app.compare.report import Comparison, comparison_lines
from app.conversations.message import Message, Role
from app.core.errors import Interrupted
from app.engine.types import DraftParams, SamplingParams
from app.worker.request import AnswerRequest
from tests.compare.runs import rounds_of
from tests.fakes import FakeModel, Rule, mixing
from tests.pairs import FakePair

PROMPT = "hello"
GREEDY = SamplingParams(temperature=0)
DRAFTS = DraftParams(3, 0, 0.0)
REQUEST = AnswerRequest((Message(Role.USER, PROMPT),), GREEDY, max_tokens=12)
PLACE = 6
"""The token of the answer with a near-tie."""


class Rounding(FakeModel):
    """A model whose logits after some number of tokens change with the batch size, like those of real models."""

    def __init__(self, rule: Rule, gap: float, moves: float, after: int = len(PROMPT) + PLACE) -> None:
        super().__init__(rule)
        self.gap, self.moves, self.after, self.width = gap, moves, after, 1
        self.remembers = False

    def decode(self, tokens: Sequence[int], n_outputs: int) -> None:
        self.width = max(n_outputs, self.width) if self.remembers else n_outputs
        super().decode(tokens, n_outputs)

    def _row(self) -> np.ndarray:
        row = super()._row()
        if len(self.cells) == self.after:
            row[61] = row.max() - self.gap + (self.moves if self.width > 1 else 0.0)
        return row


def runs(pair: FakePair, request: AnswerRequest = REQUEST) -> tuple[Run, Run]:
    sides = [Side("plain", None), Side("drafted", DRAFTS)]
    (round_,) = rounds_of(race(pair, sides, request, [1], lambda: False))
    return round_["plain"], round_["drafted"]


def never() -> bool:
    return False


def rounding_pair(gap: float, moves: float) -> FakePair:
    return FakePair(Rounding(mixing(5), gap, moves), FakeModel(mixing(5)))


def explained(pair: FakePair) -> Difference:
    found = explain(pair, REQUEST, *runs(pair), never)
    assert found is not None
    return found


def test_the_same_text_has_no_difference() -> None:
    pair = rounding_pair(0.05, 0.0)
    assert explain(pair, REQUEST, *runs(pair), never) is None


def test_a_near_tie_has_both_logits() -> None:
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


@pytest.mark.parametrize(
    ("change", "index", "near_tie", "why"),
    [
        (lambda tokens: (*tokens[:PLACE], 61, *tokens[PLACE + 1 :]), PLACE, False, "the batch moved a logit by 0"),
        # The prompt gives the first token, without a verify step.
        (lambda tokens: (61, *tokens[1:]), 0, False, "the batch moved a logit by 0"),
        (lambda tokens: tokens[:4], 4, None, "one answer was stopped earlier"),
    ],
)
def test_tokens_that_the_logits_do_not_explain_are_no_rounding(
    change: Callable[[tuple[int, ...]], tuple[int, ...]], index: int, near_tie: bool | None, why: str
) -> None:
    pair = FakePair(FakeModel(mixing(5)), FakeModel(mixing(5)))
    plain, drafted = runs(pair)
    found = explain(pair, REQUEST, plain, replace(drafted, tokens=change(drafted.tokens)), never)

    assert found is not None
    assert (found.index, found.near_tie) == (index, near_tie)
    assert why in found.why
    assert found.width == (0 if index == 0 else 4)


def test_a_sampled_difference_without_rounding_is_a_real_one() -> None:
    def two(sequence: Sequence[int]) -> dict[int, float]:
        return {1 + len(sequence) % 7: 0.5, 20: 0.5}

    pair = FakePair(FakeModel(two), FakeModel(two))
    request = replace(REQUEST, sampling=SamplingParams(temperature=1.0, seed=3))
    plain, drafted = runs(pair, request)
    assert explain(pair, request, plain, drafted, never) is None
    other = 20 if plain.tokens[3] != 20 else 1 + (len(PROMPT) + 3) % 7
    found = explain(pair, request, plain, replace(drafted, tokens=(*drafted.tokens[:3], other)), never)
    assert found is not None
    assert found.near_tie is False
    assert "moved a logit by 0" in found.why


def test_explaining_can_be_stopped() -> None:
    pair = rounding_pair(0.05, 0.08)
    both = runs(pair)
    with pytest.raises(Interrupted):
        explain(pair, REQUEST, *both, lambda: True)


def test_the_report_shows_where_and_why() -> None:
    pair = rounding_pair(0.05, 0.08)
    plain, drafted = runs(pair)
    found = explain(pair, REQUEST, plain, drafted, never)
    text = "\n".join(comparison_lines(Comparison(({"plain": plain, "drafted": drafted},), {"drafted": found})))

    assert f"differs at token {PLACE + 1}" in text
    assert "rounding difference" in text
    assert "without drafts" in text
    assert "the batch size (here 4" in text
    assert "logit" not in text


def test_a_token_behind_a_wider_batch_is_explained_by_that_batch() -> None:
    """A round without a draft computes one token over cells that larger batches have rounded."""
    pair = rounding_pair(0.05, 0.08)
    plain, drafted = runs(pair)
    single = replace(drafted, steps=tuple(s for s in drafted.steps if s.first + s.tokens <= PLACE))
    alone = [VerifyStep(i, 1, 0) for i in range(single.steps[-1].first + single.steps[-1].tokens, 12)]
    model = pair.samplers[0]._model
    assert isinstance(model, Rounding)
    model.remembers, model.width = True, 1
    found = explain(pair, REQUEST, plain, replace(single, steps=(*single.steps, *alone)), never)

    assert found is not None
    assert (found.width, found.near_tie) == (1, True)
    assert "(1 after larger batches, always 1 without drafts)" in found.why
