"""Draft layers read exactly the tokens and hidden rows that a fresh read of the text would."""

import random
from collections.abc import Sequence
from itertools import count

import numpy as np
import pytest

from app.core.errors import ComputeError, DecodeError
from app.engine.auto.cost_profile import CostProfile
from app.engine.auto.curve import CostModel
from app.engine.auto.pair_statistics import PairStatistics
from app.engine.auto.strategy import AutomaticDrafting
from app.engine.cache import TokenCache
from app.engine.draft_model import HiddenDrafter
from app.engine.events import DraftLost, Step
from app.engine.fixed import FixedDrafting
from app.engine.generator import Generator, Request
from app.engine.interfaces import Rows, Verdict
from app.engine.sources import Source
from app.engine.types import Draft, DraftParams
from tests.fakes import END, FakeModel, FakeSampler, mixing

PROMPT = [3 + i % 50 for i in range(40)]


def row_of(tokens: Sequence[int]) -> float:
    """Return a hidden row: a number that depends on all tokens up to its position."""
    state = 7
    for token in tokens:
        state = (state * 31 + token + 1) % 65_521
    return float(state)


class FakeHead:
    """A `HeadModel` that checks its inputs: the row of each position is that of the tokens before it."""

    n_ctx = 400
    longest = 12
    native_ns = 0
    first_logits = None

    def __init__(self, target: FakeModel, *, at_once: bool) -> None:
        self._target = target
        self.row_shift = 0 if at_once else 1
        self.memory: dict[int, tuple[int, float]] = {}
        self.first = 0
        self.fail_with: Exception | None = None
        self.computes_rows = False

    def compute_rows(self, is_on: bool) -> None:
        self.computes_rows = is_on

    def hidden_rows(self, n: int) -> Rows:
        assert self.computes_rows
        cells = self._target.cells
        return np.array([[row_of(cells[: i + 1])] for i in range(len(cells) - n, len(cells))], np.float32)

    def read(self, start: int, tokens: Sequence[int], rows: Rows, n_outputs: int) -> None:
        if self.fail_with is not None:
            raise self.fail_with
        assert len(tokens) == len(rows)
        if not self.memory:
            self.first = start
        assert start == self.first + len(self.memory), "positions must be consecutive"
        for i, (token, row) in enumerate(zip(tokens, rows, strict=True)):
            self.memory[start + i] = token, float(row[0])

    def draft_next(self, position: int, token: int) -> None:
        assert position == self.first + len(self.memory)
        self.memory[position] = token, -1.0

    def block(self, position: int, token: int, n: int) -> None:
        assert position == self.first + len(self.memory)
        for i in range(n + 1):
            self.memory[position + i] = token, -1.0

    def drafted(self, i: int) -> tuple[int, float]:
        return 5 + (len(self.memory) + i) % 7, 0.99

    def rollback(self, position: int) -> None:
        self.memory = {at: value for at, value in self.memory.items() if at < position}

    def clear(self) -> None:
        self.memory, self.first = {}, 0

    def check(self, sequence: Sequence[int], *, from_start: bool = True) -> None:
        """Check that the memory holds what a fresh read of these tokens would put there."""
        assert not from_start or self.first == 0
        for at, (token, row) in self.memory.items():
            assert token == sequence[at]
            before = sequence[: at + 1 - self.row_shift]
            assert row == (row_of(before) if before else 0.0)


class Rig:
    """A fake target with draft layers, and answers with partly right drafts."""

    def __init__(self, *, at_once: bool, can_truncate: bool = True) -> None:
        self.model = FakeModel(mixing(3), n_ctx=400, n_batch=16)
        self.model.can_truncate, self.model.n_snapshots = can_truncate, 7
        self.target = TokenCache(self.model)
        self.head = FakeHead(self.model, at_once=at_once)
        kind = Source.DFLASH if at_once else Source.MTP
        self.drafter = HiddenDrafter(kind, self.target, self.head, lambda token: token == END)
        self.lost: list[str] = []

    def answer(self, prompt: Sequence[int], n: int, right: float | None) -> list[int]:
        """Answer; each drafted token is right with this probability; None drafts nothing."""
        strategy = _Mixed(self.drafter, self.model, right or 0.0, n_max=0 if right is None else 6)
        generator = Generator(self.target, strategy, FakeSampler(self.model))
        tokens: list[int] = []
        for event in generator.run(Request(prompt, lambda token: False, n, lambda *_: None)):
            tokens += event.tokens if isinstance(event, Step) else ()
            self.lost += [event.reason] if isinstance(event, DraftLost) else []
        return tokens


class _Mixed(FixedDrafting):
    def __init__(self, drafter: HiddenDrafter, model: FakeModel, right: float, n_max: int) -> None:
        super().__init__(drafter, DraftParams(n_max, 0, 0.0))
        self._model, self._right, self._random = model, right, random.Random(1)

    def propose(self, sequence: Sequence[int], limit: int) -> Draft:
        draft, tokens = super().propose(sequence, limit), list(sequence)
        for token in draft.tokens:
            best = max(self._model.rule(tokens).items(), key=lambda one: one[1])[0]
            tokens.append(best if self._random.random() < self._right else token)
        return Draft.of(self._source.kind, tokens[len(sequence) :], draft.confidences)


@pytest.fixture(params=[False, True], ids=["chain", "block"])
def at_once(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.mark.parametrize("right", [0.0, 0.7, 1.0])
def test_drafts_read_accepted_tokens_only(at_once: bool, right: float) -> None:
    rig = Rig(at_once=at_once)
    plain = Rig(at_once=at_once).answer(PROMPT, 200, None)
    assert rig.answer(PROMPT, 200, right) == plain
    rig.head.check([*PROMPT, *plain])
    assert len(rig.head.memory) > 220


def test_every_prompt_of_a_conversation_is_read_whole(at_once: bool) -> None:
    rig = Rig(at_once=at_once)
    text = [*PROMPT, *rig.answer(PROMPT, 30, 0.5)]
    for prompt in ([*text, 9, 9], [*text[:50], 8], [*text[:20], *range(3, 33)], text[:45], [1, 2]):
        text = [*prompt, *rig.answer(prompt, 20, 0.5)]
        rig.head.check(text)
        assert len(rig.head.memory) >= len(text) - 8


def test_a_recurrent_target_goes_back_to_a_known_row() -> None:
    rig = Rig(at_once=False, can_truncate=False)
    first = rig.answer(PROMPT, 30, 0.5)
    prompt = [*PROMPT[:-4], 1, 2, 3, 4, 5, 6, 7]
    text = [*prompt, *rig.answer(prompt, 30, 0.5)]
    rig.head.check(text)
    assert len(rig.head.memory) > len(text) - 8
    assert first


def test_long_answers_without_drafts_are_read_in_batches(at_once: bool) -> None:
    rig = Rig(at_once=at_once)
    text = [*PROMPT, *rig.answer(PROMPT, 200, None)]
    rig.head.check(text)
    assert rig.drafter.unread(text) <= 65
    assert len(rig.drafter._rows) <= 70


@pytest.fixture
def followed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the tokens of the batches whose rows are taken."""
    batches: list[int] = []
    follow = HiddenDrafter.follow

    def spy(drafter: HiddenDrafter, tokens: Sequence[int], n_new: int, n_outputs: int) -> None:
        batches.append(n_new)
        follow(drafter, tokens, n_new, n_outputs)

    monkeypatch.setattr(HiddenDrafter, "follow", spy)
    return batches


@pytest.mark.parametrize("right", [None, 0.5])
def test_layers_at_rest_catch_up_with_a_text_that_was_read_before(at_once: bool, right: float | None) -> None:
    rig = Rig(at_once=at_once)
    first = rig.answer(PROMPT, 90, right)
    rig.drafter.pause()
    rig.target.rollback(0)

    assert rig.answer(PROMPT, 60, 0.5) == first[:60]
    assert rig.lost == []
    rig.head.check([*PROMPT, *first[:60]])


def test_answers_without_drafts_do_not_move_the_layers(at_once: bool, followed: list[int]) -> None:
    rig = Rig(at_once=at_once)
    first = rig.answer(PROMPT, 30, 0.5)
    rig.drafter.prepare(PROMPT, drafts=False)
    followed.clear()
    rig.target.rollback(0)
    rig.answer(PROMPT, 30, None)
    assert followed == []

    rig.target.rollback(0)
    rig.drafter.prepare(PROMPT, drafts=True)
    assert rig.answer(PROMPT, 30, 0.5) == first
    # The prompt was read once.
    assert sum(followed) < len(PROMPT) + 3 * 30
    rig.head.check([*PROMPT, *first])

    rig.drafter.prepare(PROMPT, drafts=False)
    text = [*PROMPT, *first, 9]
    text += rig.answer(text, 60, None)
    rig.drafter.prepare(text, drafts=True)
    text += rig.answer(text, 30, 0.5)
    assert rig.lost == []
    rig.head.check(text)


@pytest.mark.parametrize("can_truncate", [True, False])
def test_idle_draft_layers_cost_nothing_and_catch_up(at_once: bool, can_truncate: bool, followed: list[int]) -> None:
    rig = Rig(at_once=at_once, can_truncate=can_truncate)
    text = [*PROMPT, *rig.answer(PROMPT, 30, 0.5)]
    rig.drafter.pause()
    followed.clear()
    before = dict(rig.head.memory)

    text.append(9)
    text += rig.answer(text, 100, None)
    assert (followed, rig.head.memory, rig.head.computes_rows) == ([], before, False)
    assert rig.drafter.unread(text) >= 100
    text += rig.answer(text, 60, 0.5)

    assert (rig.drafter.unread(text), rig.lost) == (0, [])
    rig.head.check(text)
    assert len(rig.head.memory) > len(text) - 8


def test_automatic_drafting_does_not_run_useless_draft_layers(
    at_once: bool, followed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    why = ["it cannot gain"]
    monkeypatch.setattr("app.engine.auto.strategy.impossibility", lambda *_: why[0])
    rig = Rig(at_once=at_once)
    statistics = PairStatistics(CostModel(CostProfile({1: 1e6, 2: 1.1e6, 8: 1.2e6}, draft_ns=1e4)))
    text = list(PROMPT)

    def answer(n: int) -> list[Step]:
        ticks = count(0, 10_000)
        strategy = AutomaticDrafting(statistics, [rig.drafter], lambda: next(ticks))
        generator = Generator(rig.target, strategy, FakeSampler(rig.model), clock=lambda: next(ticks))
        steps = [
            event
            for event in generator.run(Request(text, lambda _: False, n, lambda *_: None))
            if isinstance(event, Step)
        ]
        text.extend(token for step in steps for token in step.tokens)
        return steps

    answer(20)
    followed.clear()
    answer(20)
    assert followed == []
    why[0] = ""
    steps = answer(40)

    assert sum(len(step.draft) for step in steps) > 0
    assert followed
    rig.head.check(text)
    plain = Rig(at_once=at_once).answer(PROMPT, 80, None)
    assert text == [*PROMPT, *plain]


def test_after_a_restored_state_attention_begins_there(at_once: bool) -> None:
    rig = Rig(at_once=at_once)
    text = [*PROMPT, *rig.answer(PROMPT, 30, 0.5)]
    saved = rig.target.save()
    assert saved is not None
    rig.answer([1, 2, 3], 20, 0.5)
    rig.target.restore(saved)
    prompt = [*text, 4, 5]
    text = [*prompt, *rig.answer(prompt, 40, 0.5)]
    rig.head.check(text, from_start=False)
    assert rig.head.first >= len(PROMPT)
    assert rig.head.memory


def test_a_failure_is_reported_once_unless_the_computation_failed(at_once: bool) -> None:
    rig = Rig(at_once=at_once)
    rig.head.fail_with = DecodeError("No room.")
    plain = Rig(at_once=at_once).answer(PROMPT, 20, None)
    assert rig.answer(PROMPT, 20, 0.5) == plain
    assert (rig.lost, rig.drafter.is_broken) == (["No room."], False)
    rig.head.fail_with = None
    prompt = [*PROMPT, *plain]
    rig.head.check([*prompt, *rig.answer(prompt, 20, 0.5)], from_start=False)
    assert rig.lost == ["No room."]
    rig.head.fail_with = ComputeError("Lost.")
    rig.answer(PROMPT[::-1], 20, 0.5)
    assert (rig.lost[1:], rig.drafter.is_broken) == (["Lost."], True)


def test_a_draft_ends_at_the_limits() -> None:
    rig = Rig(at_once=False)
    rig.answer(PROMPT, 1, None)
    text = [*PROMPT, 9]
    assert len(rig.drafter.draft(text, 30, lambda depth, p: Verdict.TAKE)) == 12
    assert len(rig.drafter.draft(text, 30, lambda depth, p: Verdict.LAST)) == 1
    assert len(rig.drafter.draft(text, 30, lambda depth, p: Verdict.DROP)) == 0
    assert len(rig.drafter.draft(text, 0, lambda depth, p: Verdict.TAKE)) == 0
